"""What Lightning does not keep in a checkpoint: random-number states of every rank and the W&B run id."""

from __future__ import annotations

import random
from typing import Any

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import WandbLogger
from torch import distributed

from sharpo.errors import DataError


class ResumeState(Callback):
    """Saves and restores Python, NumPy and torch random states, so an interrupted run equals an uninterrupted one.

    The task cursor is the data module's own state; the policy version is the module's.
    """

    def __init__(self) -> None:
        self.wandb_id: str | None = None

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:  # noqa: ARG002
        """Remember the W&B run id from the start, so that a crash does not lose it."""
        for logger in trainer.loggers:
            if isinstance(logger, WandbLogger) and trainer.is_global_zero:
                self.wandb_id = str(logger.experiment.id)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all ranks; every rank calls it."""
        mine = _random_states()
        ranks: list[Any] = [mine]
        if distributed.is_initialized():
            ranks = [None] * distributed.get_world_size()
            distributed.all_gather_object(ranks, mine)
        return {"ranks": ranks, "wandb_id": self.wandb_id}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore this rank's state.

        Raises:
            DataError: when another number of ranks wrote the states.
        """
        rank = distributed.get_rank() if distributed.is_initialized() else 0
        ranks = state_dict["ranks"]
        world = distributed.get_world_size() if distributed.is_initialized() else 1
        if len(ranks) != world:
            raise DataError(
                f"the checkpoint was written by {len(ranks)} process(es) and this run has {world}: random states "
                f"cannot be restored; resume with trainer.devices={len(ranks)}"
            )
        _restore(ranks[rank])
        self.wandb_id = state_dict["wandb_id"]


def _random_states() -> dict[str, Any]:
    """Return the states as plain values and tensors (a checkpoint is read with ``weights_only``)."""
    version, keys, gauss = random.getstate()
    name, array, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": {"version": version, "keys": torch.tensor(keys, dtype=torch.int64), "gauss": gauss},
        "numpy": {
            "name": str(name),
            "keys": torch.from_numpy(np.asarray(array).astype(np.int64)),
            "position": int(position),
            "has_gauss": int(has_gauss),
            "cached": float(cached),
        },
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _restore(states: dict[str, Any]) -> None:
    python, numpy = states["python"], states["numpy"]
    random.setstate((python["version"], tuple(python["keys"].tolist()), python["gauss"]))
    keys = numpy["keys"].numpy().astype(np.uint32)
    np.random.set_state((numpy["name"], keys, numpy["position"], numpy["has_gauss"], numpy["cached"]))
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
