"""The ends of the curve: a validation before the first update, and one after the last."""

from __future__ import annotations

import lightning
from lightning.pytorch.callbacks import Callback


class ValidateFirst(Callback):
    """Runs every panel once when training starts, with training's own engine; a resumed run has its baseline.

    After the last iteration they run too, also where ``trainer.check_val_every_n_epoch`` would leave it out.
    """

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:  # noqa: ARG002
        """Run the validation loop in place, as the epoch loop does after an epoch."""
        if trainer.ckpt_path is not None:
            return
        trainer.validating = True
        trainer.fit_loop.epoch_loop.val_loop.run()
        trainer.training = True

    def on_train_epoch_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:  # noqa: ARG002
        """Let the last iteration be validated whatever its number."""
        if trainer.max_epochs == trainer.current_epoch + 1:
            trainer.check_val_every_n_epoch = 1
