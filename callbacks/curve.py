"""The learning curve: success with Wilson's 95 % interval against iterations, as a PNG and a small CSV."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback
from sharpo.callbacks.success_by_family import LogSuccessByFamily

from sharpo.stats import wilson

FIELDS = ("iteration", "step", "panel", "family", "success", "low", "high", "successes", "episodes")


class LearningCurve(Callback):
    """Draws ``curve.png`` and writes ``curve.csv`` after each validation; the points survive a resume.

    Stands beside :class:`LogSuccessByFamily`, whose counts it draws.

    Args:
        folder: where to; None = the run's folder.
        title: above the picture.
    """

    def __init__(self, folder: str | Path | None = None, title: str = "") -> None:
        self.folder = folder
        self.title = title
        self.points: list[dict[str, Any]] = []

    def state_dict(self) -> dict[str, Any]:
        """Return the points so far."""
        return {"points": self.points}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the points of the run that is resumed."""
        self.points = list(state_dict["points"])

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Add one point for each panel and family, write the CSV and draw success over all families."""
        if not trainer.is_global_zero or trainer.sanity_checking:
            return
        counted = next(c for c in trainer.callbacks if isinstance(c, LogSuccessByFamily))  # type: ignore[attr-defined]
        version = int(pl_module.policy_version)  # type: ignore[arg-type]
        for panel, counts in counted.counts.items():
            self.points = [p for p in self.points if (p["panel"], p["iteration"]) != (panel, version)]
            for family, (won, seen) in counts.items():
                if seen:
                    values = (version, trainer.global_step, panel, family, won / seen, *wilson(won, seen), won, seen)
                    self.points.append(dict(zip(FIELDS, values, strict=True)))
        if self.points:
            folder = Path(trainer.default_root_dir if self.folder is None else self.folder)
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "curve.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(FIELDS)
                writer.writerows([point[field] for field in FIELDS] for point in self.points)
            draw(self.points, folder / "curve.png", self.title)


def draw(points: list[dict[str, Any]], path: str | Path, title: str = "") -> None:
    """Draw success against iterations, one line for each panel.

    Args:
        points: rows with the keys of ``FIELDS``.
        path: of the PNG.
        title: above the picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for panel in sorted({point["panel"] for point in points}):
        mine = [p for p in points if p["panel"] == panel and p["family"] == "all"]
        rows = sorted(mine, key=lambda p: p["iteration"])
        x = [row["iteration"] for row in rows]
        label = f"{panel} (n={rows[-1]['episodes']})"
        (line,) = axes.plot(x, [row["success"] for row in rows], marker="o", label=label)
        axes.fill_between(x, [r["low"] for r in rows], [r["high"] for r in rows], color=line.get_color(), alpha=0.15)
    axes.set(xlabel="iteration", ylabel="success, 95 % interval", ylim=(0, 1), title=title)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=130)
