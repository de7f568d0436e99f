"""Where the credit went, once per validation: one picture, and the shuffled-teacher control as metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import WandbLogger
from sharpo.callbacks.credit_picture import Seen, draw
from torch import Tensor

from sharpo.control import Control, over_all_ranks, shuffled_teacher
from sharpo.functional.credit_report import control_summary, segment_gaps, segment_multipliers, step_credit
from sharpo.ranges import Count, Natural, checked
from sharpo.scoring import over_ranks, span_means

KEPT = ("z_mean", "z_min", "z_max", "multiplier_min", "multiplier_max", "gap_success_mean", "gap_failure_mean",
        "step_share")  # fmt: skip


@dataclass(frozen=True)
class Latest:
    """What the next picture shows: segments, control and report of one iteration, over all ranks."""

    seen: Seen
    control: Tensor
    report: dict[str, float]


class CreditReport(Callback):
    """Draws ``credit/step_<n>.png`` after each validation and logs ``credit/control_*`` in the iteration before it.

    The other numbers under ``credit/`` are logged at every iteration by the scoring itself. This one reads the buffer
    between scoring and the first update, and leaves training unchanged bit for bit.

    Args:
        folder: where the pictures go; None = ``credit`` in the run's folder.
        rows: rows of each rank that are scored once more with another task's hint; 0 = no control.
        points: most segments of each rank in a picture.
    """

    @checked("callbacks.credit")
    def __init__(self, folder: str | Path | None = None, rows: Natural = 16, points: Count = 2000) -> None:
        self.folder, self.rows, self.points = folder, rows, points
        self.history: list[dict[str, float]] = []
        self.latest: Latest | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return what is drawn over iterations."""
        return {"history": self.history}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the history of the run that is resumed."""
        self.history = list(state_dict["history"])

    @torch.no_grad()
    def on_train_batch_start(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        batch: Any,  # noqa: ARG002
        batch_idx: int,
    ) -> None:
        """Before the first update of an iteration that ends with a validation: read the credit, run the control."""
        every = trainer.check_val_every_n_epoch or 1
        if batch_idx or not trainer.enable_validation or (trainer.current_epoch + 1) % every:
            return
        module: Any = pl_module
        buffer: Any = trainer.train_dataloader.dataset  # type: ignore[union-attr]
        table, device = buffer.segments, module.device
        batches = [buffer[i][0] for i in range(len(buffer) // buffer.sizes.passes)]
        credit = span_means(table, batches, [rows.advantages for rows in batches])
        report = {name: float(value) for name, value in module.algorithm.report(table, credit).items()}
        report = over_ranks(report, device)
        seen = over_all_ranks(self._sample(_columns(table, credit), buffer.iteration), device)
        control, logged = self._control(trainer, module, buffer)
        module.log_dict(logged, on_step=False, on_epoch=True, batch_size=1, sync_dist=trainer.world_size > 1)
        point = {"iteration": float(buffer.iteration), **{name: report[name] for name in KEPT}}
        point |= {name.removeprefix("credit/"): float(value) for name, value in logged.items()}
        self.history = [old for old in self.history if old["iteration"] < point["iteration"]] + [point]
        self.latest = Latest(Seen.from_columns(seen), control, report)

    def _control(self, trainer: lightning.Trainer, module: Any, buffer: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """Return own gap, other gap and success of each segment, (N, 3), over all ranks, and what is logged."""
        if not self.rows or not module.algorithm.teaches_at(buffer.iteration):
            return torch.zeros(0, 3), {}
        with trainer.precision_plugin.forward_context():
            found: Control = shuffled_teacher(
                buffer,
                module.hindsight or module.policy,
                rows=self.rows,
                temperature=module.temperature,
                device=module.device,
                lockstep=module.device_mesh is not None,
            )
        mine = torch.stack([found.own, found.other, found.success.float()], dim=1)
        every = over_all_ranks(mine, module.device)
        counts = over_all_ranks(torch.tensor([[float(found.rows), float(found.left_out)]]), module.device).sum(0)
        summary = control_summary(every[:, 0], every[:, 1], every[:, 2] > 0)
        logged = {**summary, "rows": counts[0], "left_out": counts[1]}
        return every, {f"credit/control_{name}": value.float().to(module.device) for name, value in logged.items()}

    def _sample(self, columns: Tensor, iteration: int) -> Tensor:
        if len(columns) <= self.points:
            return columns
        generator = torch.Generator().manual_seed(iteration)
        return columns[torch.randperm(len(columns), generator=generator)[: self.points].sort().values]

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Draw the iteration that led to this validation; a validation before the first update has none."""
        latest, self.latest = self.latest, None
        if latest is None or not trainer.is_global_zero:
            return
        folder = Path(trainer.default_root_dir) / "credit" if self.folder is None else Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"step_{trainer.global_step:06d}.png"
        method = type(pl_module.algorithm).__name__
        draw(latest.seen, latest.control, latest.report, self.history, path, method)
        for logger in trainer.loggers:
            if isinstance(logger, WandbLogger):
                logger.log_image("credit/report", [str(path)])


def _columns(table: Any, credit: Tensor) -> Tensor:
    """Return gap, scored, multiplier, has one, step credit, counts, length and success, (S, 8) float."""
    parts = [*segment_gaps(table), *segment_multipliers(table, credit), *step_credit(table, credit)]
    return torch.stack([x.float() for x in (*parts, table.length, table.success)], dim=1)
