"""Under CI a missing optional part stops the tests; without CI it is named by the tests that skip."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import OPTIONAL, absent

ROOT = Path(__file__).resolve().parent.parent


def test_what_is_absent_is_named_with_its_extra():
    assert absent({"torch": "x", "no_such_module": "dense"}) == {"no_such_module": "dense"}


def test_ci_refuses_a_set_up_in_which_tests_would_be_skipped(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'faiss' else find(name, *a)\n"
    )
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "tests/test_bootstrap.py")]
    for ci, code in (("true", 4 if sys.platform == "linux" else 0), ("", 0)):
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "CI": ci}
        done = subprocess.run([*run, "--collect-only"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        if ci and sys.platform == "linux":
            assert "CI is set and faiss not installed" in done.stderr + done.stdout
            assert "pip install -e '.[dense]'" in done.stderr + done.stdout


def test_every_extra_named_exists():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(OPTIONAL.values()) <= set(extras)
