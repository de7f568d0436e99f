"""Which checkpoint is meant, and whether it can be used."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch

from sharpo.errors import DataError


def find(wanted: str | None, runs: Path, own: Path | None = None) -> str | None:
    """Return the path of a checkpoint.

    Args:
        wanted: a path; ``last`` = the newest ``last.ckpt`` of ``runs``; ``auto`` = the ``last.ckpt`` in ``own``, or
            none when this run has not begun; None = none.
        runs: the folder of an experiment's runs.
        own: the folder of the run that may go on; None = a policy is only judged, so that ``auto`` means nothing.

    Raises:
        DataError: when there is none.
    """
    if wanted is None:
        return None
    if wanted == "auto" and own is None:
        raise DataError("ckpt=auto goes on with a training: to judge a policy give ckpt=last, or a checkpoint's path")
    if wanted == "auto" and own is not None:
        mine = own / "checkpoints" / "last.ckpt"
        return str(mine) if mine.is_file() else None
    if wanted == "last":
        found = sorted(runs.glob("*/checkpoints/last.ckpt"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise DataError(
                f"ckpt=last: no run in {runs} has checkpoints/last.ckpt: give ckpt=<path>, or the experiment, name and "
                "paths.root that it was trained with"
            )
        return str(found[-1])
    if not Path(wanted).is_file():
        kind = "a folder; give a file in it" if Path(wanted).is_dir() else "no such file"
        raise DataError(f"ckpt={wanted}: there is {kind}, for example <run>/checkpoints/last.ckpt, or ckpt=last")
    return wanted


def check(path: str | None, *, resume: bool) -> str | None:
    """Return a checkpoint's path when it can be read, and can be trained on where that is wanted.

    Args:
        path: of the file; None = no checkpoint.
        resume: training goes on from it, so the optimizer's state is needed too.

    Raises:
        DataError: when the file is damaged, foreign, or holds too little.
    """
    if path is None:
        return None
    try:
        saved = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError, ValueError) as error:
        raise DataError(f"ckpt={path} is damaged or no checkpoint: give another") from error
    if not isinstance(saved, dict) or "sharpo" not in saved:
        raise DataError(f"ckpt={path} was not written by this program: it holds no policy version; give another")
    if resume and "optimizer_states" not in saved:
        raise DataError(
            f"ckpt={path} holds weights alone, which eval.py can judge; to go on training give the run's last.ckpt"
        )
    return path


def logged_run(checkpoint: str | None) -> dict[str, str]:
    """Return what makes Weights & Biases continue the run that wrote a checkpoint; {} when it logged to none."""
    if checkpoint is None or not Path(checkpoint).is_file():
        return {}
    saved = torch.load(checkpoint, map_location="cpu", mmap=True, weights_only=True)
    run = saved.get("callbacks", {}).get("ResumeState", {}).get("wandb_id")
    return {} if run is None else {"id": run}
