"""Under CI a missing optional part stops the tests; without CI it is named by the tests that skip."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import conftest
import pytest
from conftest import OPTIONAL, absent

ROOT = Path(__file__).resolve().parent.parent


def test_what_is_absent_is_named_with_its_extra():
    assert absent({"torch": "x", "no_such_module": "dense"}) == {"no_such_module": "dense"}


@pytest.mark.integration
def test_ci_refuses_a_set_up_in_which_tests_would_be_skipped(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'faiss' else find(name, *a)\n"
    )
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "tests/test_bootstrap.py")]
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "CI": "true"}
    done = subprocess.run([*run, "--collect-only"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == (4 if sys.platform == "linux" else 0), done.stdout + done.stderr
    if sys.platform == "linux":
        assert "CI is set and faiss not installed" in done.stderr + done.stdout
        assert "pip install -e '.[dense]'" in done.stderr + done.stdout


@pytest.mark.parametrize(("ci", "platform", "refused"), [("", "linux", 0), ("1", "linux", 1), ("1", "darwin", 0)])
def test_only_linux_under_ci_refuses(ci, platform, refused, monkeypatch):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(conftest, "absent", lambda: {"faiss": "dense"})
    with pytest.raises(pytest.UsageError) if refused else contextlib.nullcontext():
        conftest.pytest_sessionstart()


def test_every_extra_named_exists():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(OPTIONAL.values()) <= set(extras)
