"""Says which Python to run a command with when the one that runs it has no SHARPO. Standard library only."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path

VENV = Path(__file__).resolve().parent.parent / ".venv"


def require(venv: Path = VENV) -> None:
    """Go on where SHARPO is installed; else end the program with the remedy.

    Args:
        venv: the environment that set-up makes in the project's folder.

    Raises:
        SystemExit: this Python has no SHARPO.
    """
    if importlib.util.find_spec("sharpo.configs") is None:  # the folder alone, not installed
        sys.exit(remedy(venv))


def remedy(venv: Path) -> str:
    """Return what to run instead: the environment's own Python where there is one, else set-up."""
    scripts = venv / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / ("python.exe" if os.name == "nt" else "python")
    if not python.exists() or Path(sys.prefix).resolve() == venv.resolve():
        return "sharpo is not installed here: run `make setup`, or `pip install -e .` in this folder"
    command = [os.path.relpath(python), *getattr(sys, "orig_argv", ["", *sys.argv])[1:]]
    return (
        f"this Python ({sys.executable}) has no sharpo: run `{shlex.join(command)}`, or `source "
        f"{shlex.quote(os.path.relpath(scripts / 'activate'))}` first"
    )
