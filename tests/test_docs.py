"""Docs are checked: every path named exists, every command composes, every Python block of the algorithm pages runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PATH = re.compile(r"`((?:sharpo|envs|callbacks|configs|tests|benchmarks|docs|notebooks|\.ci)/[\w./-]+|[\w-]+\.(?:py|toml))`")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
COMMAND = re.compile(r"^\s*(?:\$ )?(?:\.venv/bin/)?python (train|eval)\.py(.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_paths_named_in_docs_exist(page: Path):
    text = page.read_text()
    missing = [name for name in PATH.findall(text) if not (ROOT / name).exists() and "mine" not in name]
    missing += [
        link
        for link in LINK.findall(text)
        if not link.startswith(("http://", "https://", "mailto:")) and not (page.parent / link).exists()
    ]
    assert not missing, f"{page.relative_to(ROOT)} names what does not exist: {missing}"


def commands() -> list[str]:
    """Every `python train.py ...` of the docs, once, comments and continuation lines resolved."""
    found: dict[str, None] = {}
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        for script, rest in COMMAND.findall(text):
            if script == "train" and "…" not in rest and "mine" not in rest:
                found[rest.split("#")[0].strip().rstrip("`").strip()] = None
    return list(found)


@pytest.mark.parametrize("arguments", commands())
def test_train_commands_of_the_docs_compose(arguments: str, tmp_path: Path):
    words = [word for word in shlex.split(arguments) if word not in ("--multirun", "-m")]
    words = [word.split(",")[0] if "=" in word and "[" not in word else word for word in words]
    words = [word for word in words if not word.startswith(("debug=", "ckpt="))]
    done = subprocess.run(
        [sys.executable, str(ROOT / "train.py"), *words, "debug=plan", f"paths.root={tmp_path}"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, f"train.py {arguments}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
