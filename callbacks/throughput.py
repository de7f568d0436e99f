"""Tokens per second, and which share of an iteration's time each stage took."""

from __future__ import annotations

import time
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback


class Throughput(Callback):
    """Logs ``throughput/tokens_per_s`` and ``time/share_{engine,env,collect,score,update,rest}`` of each iteration.

    Args:
        clock: returns seconds; a test may pass its own.
    """

    def __init__(self, clock: Any = time.perf_counter) -> None:
        self.clock = clock
        self._iteration_began = self._score_began = self._update_began = self._update_ended = 0.0
        self._collected: float | None = None

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:  # noqa: ARG002
        """Start the clock of the first iteration, whose collection comes first."""
        self._iteration_began = self.clock()

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:  # noqa: ARG002
        """The first collection is over; a baseline validation that follows is not part of it."""
        self._collected = self.clock()

    def on_train_epoch_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:  # noqa: ARG002
        """Scoring begins: the module's own hook runs after this one."""
        self._score_began = self.clock()
        if self._collected is not None:
            self._iteration_began += self._score_began - self._collected
            self._collected = None
        self._update_began = 0.0

    def on_train_batch_start(
        self,
        trainer: lightning.Trainer,  # noqa: ARG002
        pl_module: lightning.LightningModule,  # noqa: ARG002
        batch: Any,  # noqa: ARG002
        batch_idx: int,  # noqa: ARG002
    ) -> None:
        """Scoring is over at the first batch."""
        self._update_began = self._update_began or self.clock()

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,  # noqa: ARG002
        pl_module: lightning.LightningModule,  # noqa: ARG002
        outputs: Any,  # noqa: ARG002
        batch: Any,  # noqa: ARG002
        batch_idx: int,  # noqa: ARG002
    ) -> None:
        """Note when the latest update ended: validation, which follows the last one, is not part of it."""
        self._update_ended = self.clock()

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Log the iteration without its validation."""
        stats = trainer.train_dataloader.dataset.stats  # type: ignore[union-attr]
        now = self.clock()
        collect = self._score_began - self._iteration_began
        score, update = self._update_began - self._score_began, self._update_ended - self._update_began
        total = max(collect + score + update, 1e-9)
        logged = {
            "time/iteration_s": total,
            "time/share_collect": collect / total,
            "time/share_score": score / total,
            "time/share_update": update / total,
            "time/validation_s": now - self._update_ended,
        }
        for stage in ("engine", "env"):
            if f"{stage}_s" in stats:
                logged[f"time/share_{stage}"] = float(stats[f"{stage}_s"]) / total
        if "generated_tokens" in stats:
            tokens = float(stats["generated_tokens"]) * trainer.world_size  # the statistic is a mean over ranks
            logged["throughput/tokens_per_s"] = tokens / total
        pl_module.log_dict(logged, on_step=False, on_epoch=True, batch_size=1, sync_dist=trainer.world_size > 1)
        self._iteration_began = now
