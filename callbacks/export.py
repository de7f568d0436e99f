"""The trained policy as a Hugging Face folder, written when training ends."""

from __future__ import annotations

from pathlib import Path

import lightning
from lightning.pytorch.callbacks import Callback


class ExportPolicy(Callback):
    """Saves a folder with weights, config and tokenizer: loadable by transformers and vLLM.

    Args:
        folder: where to; overwritten. None = ``policy`` in the run's folder.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = folder

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Save; every rank calls it, since gathering sharded weights is a collective."""
        folder = Path(trainer.default_root_dir) / "policy" if self.folder is None else Path(self.folder)
        pl_module.policy.save(folder)  # type: ignore[operator,union-attr]
