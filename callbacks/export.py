"""The trained policy as a Hugging Face folder, written when training ends."""

from __future__ import annotations

from pathlib import Path

import lightning
from lightning.pytorch.callbacks import Callback


class ExportPolicy(Callback):
    """Saves ``folder`` with weights, config and tokenizer: loadable by transformers and vLLM.

    Args:
        folder: where to; overwritten.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:  # noqa: ARG002
        """Save; every rank calls it, since gathering sharded weights is a collective."""
        pl_module.policy.save(self.folder)  # type: ignore[operator,union-attr]
