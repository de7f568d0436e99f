"""Set-up takes no interpreter on its name alone, and a Python without SHARPO says which one has it."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sharpo import installed

ROOT = Path(__file__).resolve().parent.parent
VERSION = "{}.{}".format(*sys.version_info)


@pytest.fixture
def bootstrap(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "bootstrap.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.sys, "version_info", (3, 13, 0))
    monkeypatch.setattr(shutil, "which", lambda name: str(tmp_path / name) if (tmp_path / name).exists() else None)
    return module


def program(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_stand_in_that_leads_nowhere_is_passed_over(bootstrap, tmp_path):
    program(tmp_path / "python3.12", "echo 'python3.12: command not found' >&2; exit 127")
    with pytest.raises(SystemExit, match=r"Install Python 3.11 or 3.12"):
        bootstrap.usable_python()
    good = program(tmp_path / "python3.11", "echo 3.11")
    assert bootstrap.usable_python() == good


def test_the_version_is_asked_for(bootstrap, tmp_path):
    assert bootstrap.runs(sys.executable, VERSION)
    assert not bootstrap.runs(sys.executable, "2.7")
    (tmp_path / "text").write_text("")
    assert not bootstrap.runs(str(tmp_path / "text"), VERSION)


@pytest.mark.parametrize("command", [["train.py"], ["eval.py"], ["-m", "sharpo.data"], ["-m", "benchmarks"]])
def test_a_python_without_sharpo_says_so_in_one_line(command):
    done = subprocess.run([sys.executable, "-S", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "sharpo is not installed here" in done.stderr or "has no sharpo: run `" in done.stderr


def test_the_remedy_is_the_environment_where_there_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    venv = tmp_path / ".venv"
    assert "make setup" in installed.remedy(venv)
    (venv / "bin").mkdir(parents=True)
    program(venv / "bin" / "python", "exit 0")
    monkeypatch.setattr(sys, "orig_argv", ["python3", "train.py", "seed=1"])
    told = installed.remedy(venv)
    assert "run `.venv/bin/python train.py seed=1`, or `source .venv/bin/activate` first" in told
    monkeypatch.setattr(sys, "prefix", str(venv))
    assert "make setup" in installed.remedy(venv)
