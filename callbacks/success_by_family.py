"""Success by task family on every validation panel, as counts over counts summed over ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from sharpo.metrics import HOUSEHOLD_FAMILIES, SuccessByFamily
from sharpo.stats import bootstrap, wilson


class LogSuccessByFamily(Callback):
    """Logs ``val/success/<family>``, ``val/episodes/<family>`` and both for ``all``, with Wilson's 95 % interval.

    The mean score is ``val/score/all``, with the bootstrap's 95 % interval. Beside them, means per episode:
    ``val/turns``, ``val/invalid_actions`` (turns without a valid action) and, where
    the environment has a fixed answer for it, ``val/nothing_happens`` (turns without effect); and
    ``val/invalid_share`` of all turns. The panel named ``val`` logs under ``val``, any other under ``val_<name>``.

    Args:
        families: the environment's families; None takes ``families`` of the data module.
    """

    def __init__(self, families: Sequence[str] | None = None) -> None:
        self.families = families
        self.counts: dict[str, Mapping[str, tuple[int, int]]] = {}
        self.scores: dict[str, dict[str, float]] = {}
        self._metrics: list[SuccessByFamily] = []
        self._names: list[str] = []
        self._no_effect: str | None = None

    def on_validation_epoch_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Begin one set of counters for each panel, the same on every rank."""
        data = trainer.datamodule  # type: ignore[attr-defined]
        families = self.families or getattr(data, "families", HOUSEHOLD_FAMILIES)
        self._names = list(data.panel_names)
        self._no_effect = getattr(data, "no_effect", None)
        self._metrics = [SuccessByFamily(families, self._no_effect).to(pl_module.device) for _ in self._names]

    def on_validation_batch_end(
        self,
        trainer: lightning.Trainer,  # noqa: ARG002
        pl_module: lightning.LightningModule,  # noqa: ARG002
        outputs: Any,  # noqa: ARG002
        batch: Any,
        batch_idx: int,  # noqa: ARG002
        dataloader_idx: int = 0,
    ) -> None:
        """Count the episodes of one batch."""
        self._metrics[dataloader_idx].update(batch.episodes)

    def on_validation_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Sum over ranks and log."""
        self.counts, self.scores = {}, {}
        for name, metric in zip(self._names, self._metrics, strict=True):
            prefix = "val" if name == "val" else f"val_{name}"
            counts = metric.compute()
            self.counts[name] = counts
            turns, invalid, without_effect = metric.turn_counts()
            won, seen = counts["all"]
            if not seen:
                continue
            low, high = wilson(won, seen)
            logged = {f"{prefix}/success/{family}": w / n for family, (w, n) in counts.items() if n}
            logged |= {f"{prefix}/success_low/all": low, f"{prefix}/success_high/all": high}
            values = metric.score_values()
            low, high = bootstrap(values, seed=0)
            self.scores[name] = {"mean": sum(values) / len(values), "low": low, "high": high}
            logged |= {
                f"{prefix}/{key}/all": self.scores[name][of]
                for key, of in (("score", "mean"), ("score_low", "low"), ("score_high", "high"))
            }
            logged |= {f"{prefix}/episodes/{family}": float(n) for family, (_, n) in counts.items() if n}
            logged |= {f"{prefix}/turns": turns / seen, f"{prefix}/invalid_actions": invalid / seen}
            logged[f"{prefix}/invalid_share"] = invalid / max(turns, 1)
            if self._no_effect is not None:
                logged[f"{prefix}/nothing_happens"] = without_effect / seen
            # equal on every rank: the mean over ranks that the logger takes changes nothing
            pl_module.log_dict(logged, batch_size=1, add_dataloader_idx=False, sync_dist=trainer.world_size > 1)
