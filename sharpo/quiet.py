"""What is kept off the terminal."""

from __future__ import annotations

import logging
import warnings


def hush() -> None:
    """Keep what says nothing to a user off the terminal: Lightning's tips, and a warning about its own internals."""
    for name in ("utilities.rank_zero", "trainer.connectors.checkpoint_connector"):
        logging.getLogger(f"lightning.pytorch.{name}").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", "`isinstance\\(treespec, LeafSpec\\)` is deprecated", FutureWarning)
    # a single process has a process group once vLLM runs in it; with more, every value here is synchronised already
    warnings.filterwarnings("ignore", r"It is recommended to use `self\.log\(.*sync_dist=True", UserWarning)
