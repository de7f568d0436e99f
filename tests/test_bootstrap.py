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


@pytest.mark.parametrize(
    ("system", "machine", "listing", "kind"),
    [
        ("Linux", "x86_64", "GPU 0: NVIDIA H100 (UUID: GPU-1)", "cuda"),
        ("Linux", "x86_64", None, "cpu"),  # no driver
        ("Linux", "aarch64", "", "cpu"),  # a driver without a GPU
        ("Linux", "riscv64", None, "plain"),
        ("Darwin", "arm64", None, "plain"),
    ],
)
def test_cuda_packages_are_for_a_gpu_that_answers(bootstrap, tmp_path, monkeypatch, system, machine, listing, kind):
    monkeypatch.setattr(bootstrap.platform, "system", lambda: system)
    monkeypatch.setattr(bootstrap.platform, "machine", lambda: machine)
    if listing is not None:
        program(tmp_path / "nvidia-smi", f"echo '{listing}'")
    assert bootstrap.variant() == kind


def test_a_driver_that_fails_is_no_gpu(bootstrap, tmp_path):
    program(tmp_path / "nvidia-smi", "echo 'GPU access blocked by the operating system'; exit 9")
    assert not bootstrap.has_nvidia_gpu()


@pytest.mark.parametrize("there", [True, False])
def test_the_cpu_build_is_asked_for_by_its_own_version_and_nothing_else_is_taken(bootstrap, monkeypatch, there):
    calls = []

    def pip(*arguments, required=True):
        calls.append((arguments, required))
        return there or required

    monkeypatch.setattr(bootstrap, "pip", pip)
    bootstrap.install_torch("cpu")
    wanted = f"torch=={bootstrap.TORCH}+cpu"
    asked = [(("install", wanted), False)]
    again = [(("install", wanted, "--index-url", bootstrap.TORCH_CPU_INDEX), True)]
    assert calls == asked + ([] if there else again)
    calls.clear()
    bootstrap.install_torch("cuda")
    assert calls == [(("install", f"torch=={bootstrap.TORCH}"), True)]


@pytest.mark.parametrize("code", [0, 1])
def test_a_vision_package_that_cannot_be_imported_is_taken_out(bootstrap, tmp_path, monkeypatch, code):
    calls = []
    monkeypatch.setattr(bootstrap, "PYTHON", program(tmp_path / "venv_python", f"exit {code}"))
    monkeypatch.setattr(bootstrap, "pip", lambda *arguments: calls.append(arguments))
    bootstrap.drop_broken_vision()
    assert calls == ([("uninstall", "-y", *bootstrap.VISION)] if code else [])


def test_a_failing_install_ends_with_pips_last_lines(bootstrap, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(bootstrap, "PYTHON", program(tmp_path / "venv_python", "seq 1 40; echo 'no disk' >&2; exit 1"))
    assert not bootstrap.pip("install", "x", required=False)
    with pytest.raises(SystemExit) as stopped:
        bootstrap.pip("install", "x")
    assert str(stopped.value).splitlines() == [*map(str, range(17, 41)), "no disk", "[setup] failed: pip install x"]
    assert capfd.readouterr().out == ""  # progress is for terminals


def test_what_was_installed_with_more_is_there_with_less(bootstrap, tmp_path, monkeypatch):
    calls = []
    for tool in ("g++", "cmake", "make"):
        program(tmp_path / tool, "")
    monkeypatch.setattr(bootstrap, "VENV", tmp_path)
    monkeypatch.setattr(bootstrap, "STAMP", tmp_path / "stamp")
    monkeypatch.setattr(bootstrap, "PYTHON", bootstrap.ROOT / "bootstrap.py")  # it is there
    monkeypatch.setattr(bootstrap, "pip", lambda *arguments, **more: calls.append(arguments) or True)
    monkeypatch.setattr(bootstrap, "drop_broken_vision", lambda: None)
    done = subprocess.CompletedProcess([], 0, "2.13.0+cpu\n", "")
    monkeypatch.setattr(bootstrap.subprocess, "run", lambda *arguments, **more: done)
    bootstrap.main(["webshop", "smollm2"])
    assert any("smollm2,webshop" in words[-1] for words in calls)
    calls.clear()
    for less in ([], ["smollm2"], ["webshop"], ["smollm2", "webshop"]):
        bootstrap.main(less)
    assert not calls
    with pytest.raises(SystemExit, match="unknown extra 'webshp'"):
        bootstrap.main(["webshp"])


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
