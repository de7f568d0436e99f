"""Which checkpoint is meant, and whether it can be used."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sharpo import sweep
from sharpo.errors import DataError
from sharpo.logged import without_secrets

_NAMED = 6
"""Most changed settings that are named."""


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
    if wanted == "auto":
        if own is None:
            raise DataError("ckpt=auto goes on with a training: to judge a policy give ckpt=last, or a file's path")
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
        raise DataError(
            f"ckpt={wanted}: there is {kind}, for example <run>/checkpoints/last.ckpt (or best.ckpt beside it), or "
            "ckpt=last"
        )
    return wanted


def check(path: str | None, *, resume: bool) -> str | None:
    """Return a checkpoint's path when it can be read, and can be trained on where that is wanted.

    Args:
        path: of the file; None = no checkpoint.
        resume: training goes on from it, so the optimizer's state is needed too.

    Raises:
        DataError: when the file is damaged, foreign, or holds too little.
    """
    if path is not None:
        _read(path, resume=resume)
    return path


def _read(path: str, *, resume: bool) -> dict[str, Any]:
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
    return saved


def to_train_on(wanted: str | None, own: Path, settings: Mapping[str, Any]) -> str | None:
    """Return the checkpoint that training goes on from, None for none, and say which it is and what has changed.

    Args:
        wanted: of :func:`find`.
        own: the folder of this run, beside the experiment's other runs.
        settings: of this run, as plain values.

    Raises:
        DataError: when there is none, it cannot be used, or it already has every iteration that is asked for (with
            ``auto`` such a run is left as it is).
    """
    path = find(wanted, own.parent, own)
    if path is None:
        return None
    saved = _read(path, resume=True)
    done, most = int(saved["sharpo"]["policy_version"]), settings["trainer"]["max_epochs"]
    if done >= most and wanted != "auto":
        raise DataError(f"ckpt={path} has {done} iterations already and trainer.max_epochs={most}: raise it to go on")
    if os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0":
        print(f"goes on from {path}: {done} of {most} iterations are done")  # noqa: T201
        told = changed(path, settings)
        if told:
            rest = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
            print(f"with other settings than its run had: {', '.join(told[:_NAMED])}{rest}")  # noqa: T201
    return path


def changed(checkpoint: str, settings: Mapping[str, Any]) -> list[str]:
    """Return ``name: before → now`` of what differs from the run that wrote a checkpoint; [] where that is unknown.

    What changes no number is left out, and so is how long the run shall be; secrets are hidden as in the run's record.
    """
    record = Path(checkpoint).resolve().parent.parent / "config.yaml"
    if not record.is_file():
        return []
    told = sweep.differences(sweep.saved(str(record)), without_secrets(settings))
    return [one for one in told if not one.startswith("trainer.max_epochs:")]


def logged_run(checkpoint: str | None) -> dict[str, str]:
    """Return what makes Weights & Biases continue the run that wrote a checkpoint; {} when it logged to none."""
    if checkpoint is None or not Path(checkpoint).is_file():
        return {}
    saved = torch.load(checkpoint, map_location="cpu", mmap=True, weights_only=True)
    run = saved.get("callbacks", {}).get("ResumeState", {}).get("wandb_id")
    return {} if run is None else {"id": run}
