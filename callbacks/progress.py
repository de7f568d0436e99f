"""A rich progress bar that shows success, reward and tokens per second, and the collection as its own bar."""

from __future__ import annotations

import sys
from typing import Any

import lightning
from lightning.pytorch.callbacks import RichProgressBar

from sharpo.ranges import Natural, checked

SHOWN = {
    "val/success/all": "val",
    "rollout/success": "success",
    "rollout/reward": "reward",
    "throughput/tokens_per_s": "tok/s",
    "train/loss": "loss",
}


class Progress(RichProgressBar):
    """Lightning's rich bar with the numbers of an agent's training, and ``on_collect_progress`` for the rollouts.

    Where the output is no terminal (a file, a job's log) a bar would be silent until its end: there every iteration
    writes one line.

    Args:
        refresh_rate: batches between two redraws; 0 = no bar.
    """

    @checked("callbacks.progress")
    def __init__(self, refresh_rate: Natural = 1) -> None:
        super().__init__(refresh_rate=refresh_rate)
        self._collect_bar: Any = None

    def get_metrics(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> dict[str, Any]:  # noqa: ARG002
        """Return the latest of the shown numbers under short names."""
        logged = trainer.callback_metrics
        return {short: float(logged[name]) for name, short in SHOWN.items() if name in logged}

    def on_collect_progress(self, trainer: lightning.Trainer, done: int, total: int, label: str = "Collect") -> None:
        """Move the collection's bar; the data module calls it, also before training has begun.

        Args:
            trainer: the running trainer.
            done: episodes finished.
            total: episodes of this collection.
            label: before the bar.
        """
        if self.is_disabled:
            return
        self._init_progress(trainer)
        if self.progress is None:
            return
        if self._collect_bar not in self.progress.task_ids:
            self._collect_bar = self._add_task(total, label)
        self.progress.update(self._collect_bar, description=label, total=total, completed=done, visible=done < total)
        self.refresh()

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Write the iteration's line where no bar can be seen."""
        super().on_train_epoch_end(trainer, pl_module)
        if self.is_disabled or not trainer.is_global_zero or self._console_shows():
            return
        numbers = ", ".join(f"{name} {value:.3g}" for name, value in self.get_metrics(trainer, pl_module).items())
        sys.stdout.write(f"iteration {trainer.current_epoch + 1}/{trainer.max_epochs}: {numbers}\n")
        sys.stdout.flush()

    @staticmethod
    def _console_shows() -> bool:
        return sys.stdout.isatty() or "ipykernel" in sys.modules
