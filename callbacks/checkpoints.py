"""Which checkpoints a run keeps: the last iteration to resume from, the best weights, and the moment of a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.callbacks import ModelCheckpoint

from sharpo.ranges import Count, checked


class _Keep(ModelCheckpoint):
    """Takes up its own records only in its own folder: a run resumed into a new one starts them anew."""

    def setup(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        """Choose ``checkpoints`` in the run's folder when no folder was given."""
        if self.dirpath is None:
            self.dirpath = str(Path(trainer.default_root_dir).absolute() / "checkpoints")
        super().setup(trainer, pl_module, stage)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the records of this very folder."""
        if state_dict.get("dirpath") == self.dirpath:
            super().load_state_dict(state_dict)


class KeepLast(_Keep):
    """``last.ckpt`` after every iteration, and in any case after the last: everything that a resume needs.

    When a run of one process fails inside an iteration, ``exception.ckpt`` keeps that moment to look into; resume from
    ``last``. With several processes nothing is saved then: the others are not failing, so a collective would hang.

    Args:
        folder: where to; None = ``checkpoints`` in the run's folder.
        every: iterations between two saves.
    """

    @checked("callbacks.last")
    def __init__(self, folder: str | Path | None = None, every: Count = 1) -> None:
        super().__init__(
            dirpath=folder,
            filename="last",
            every_n_epochs=every,
            save_on_train_epoch_end=True,
            enable_version_counter=False,
        )

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Save when it is time, or when no iteration follows."""
        super().on_train_epoch_end(trainer, pl_module)
        over = trainer.current_epoch + 1 == trainer.max_epochs
        if over and self._last_global_step_saved != trainer.global_step:
            self._save_topk_checkpoint(trainer, self._monitor_candidates(trainer))

    def on_exception(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,  # noqa: ARG002
        exception: BaseException,  # noqa: ARG002
    ) -> None:
        """Save ``exception.ckpt`` when that is safe and there was an update."""
        if trainer.world_size == 1 and trainer.global_step > 0 and self.dirpath is not None:
            trainer.save_checkpoint(Path(self.dirpath) / "exception.ckpt")


class KeepBest(_Keep):
    """``best.ckpt``: the weights of the validation with the highest success so far.

    Args:
        folder: where to; None = ``checkpoints`` in the run's folder.
        monitor: the logged number; higher is better.
    """

    def __init__(self, folder: str | Path | None = None, monitor: str = "val/success/all") -> None:
        super().__init__(
            dirpath=folder,
            filename="best",
            monitor=monitor,
            mode="max",
            save_weights_only=True,
            save_on_train_epoch_end=False,
            enable_version_counter=False,
        )
