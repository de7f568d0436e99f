"""The baseline: one validation of the untrained policy, before the first update."""

from __future__ import annotations

import lightning
from lightning.pytorch.callbacks import Callback


class ValidateFirst(Callback):
    """Runs every panel once when training starts, with training's own engine; a resumed run has its baseline."""

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:  # noqa: ARG002
        """Run the validation loop in place, as the epoch loop does after an epoch."""
        if trainer.ckpt_path is not None:
            return
        trainer.validating = True
        trainer.fit_loop.epoch_loop.val_loop.run()
        trainer.training = True
