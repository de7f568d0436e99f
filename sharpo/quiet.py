"""What is kept off the terminal."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path


def hush(judging: bool = False) -> None:
    """Keep what says nothing to a user off the terminal: Lightning's tips, and warnings about its own internals.

    Args:
        judging: the checkpoint of a training is read for its weights alone, so its callbacks need not be there.
    """
    for name in ("utilities.rank_zero", "trainer.connectors.checkpoint_connector"):
        logging.getLogger(f"lightning.pytorch.{name}").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", "`isinstance\\(treespec, LeafSpec\\)` is deprecated", FutureWarning)
    # a single process has a process group once vLLM runs in it; with more, every value here is synchronised already
    warnings.filterwarnings("ignore", r"It is recommended to use `self\.log\(.*sync_dist=True", UserWarning)
    if judging:
        warnings.filterwarnings("ignore", "Be aware that when using `ckpt_path`, callbacks used to create", UserWarning)


def hush_own_checkpoints(checkpoint: str | None, run: Path) -> None:
    """Keep the warning about a folder with checkpoints off the terminal, when the run resumes from that very folder."""
    if checkpoint is not None and Path(checkpoint).absolute().parent.parent == run.absolute():
        warnings.filterwarnings("ignore", "Checkpoint directory .* exists and is not empty", UserWarning)
