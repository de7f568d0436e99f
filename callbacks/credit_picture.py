"""The credit of one iteration as a picture: gaps, the control, multipliers, and how they went over iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

SUCCESS, FAILURE, GREY = "#0072B2", "#D55E00", "#666666"
KINDS = (("success", SUCCESS), ("failure", FAILURE))


@dataclass(frozen=True)
class Seen:
    """Columns of the drawn segments, (N,) each; see :mod:`sharpo.functional.credit_report`."""

    gap: Tensor
    scored: Tensor
    multiplier: Tensor
    moved: Tensor
    step: Tensor
    counts: Tensor
    length: Tensor
    success: Tensor

    @classmethod
    def from_columns(cls, x: Tensor) -> Seen:
        """Read (N, 8) float in the order of the fields."""
        gap, scored, multiplier, moved, step, counts, length, success = x.unbind(1)
        return cls(gap, scored > 0, multiplier, moved > 0, step, counts > 0, length, success > 0)


def draw(
    seen: Seen,
    control: Tensor,
    report: Mapping[str, float],
    history: Sequence[Mapping[str, float]],
    path: str | Path,
    method: str = "",
) -> None:
    """Draw one iteration: six panels for a method with a teacher, three for one without.

    Args:
        seen: segments of the iteration.
        control: own gap, other gap and success of the control's segments, (N, 3) float.
        report: scalars of :func:`sharpo.functional.credit_report.credit_diagnostics`.
        history: one row for each picture so far, the last one is this iteration.
        path: of the PNG.
        method: named in the title.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    taught = bool(seen.scored.any())
    figure = Figure(figsize=(13, 7.6 if taught else 4.1), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2 if taught else 1, 3, squeeze=False)
    if taught:
        _gaps(grid[0, 0], seen)
        _control(grid[0, 1], control, history[-1])
        _gaps_over_time(grid[0, 2], history)
    below = grid[-1]
    if bool(seen.moved.any()):
        _histogram(below[0], seen.multiplier, seen.moved, seen.success, 1.0)
        share = report["moved_share"]
        below[0].set(title=f"Multiplier: {share:.0%} moved by > 1 %", xlabel="A_eff / A")
        r, up, down = (report[f"multiplier_length_correlation{end}"] for end in ("", "_positive", "_negative"))
        _against_length(below[1], seen.multiplier, seen.moved, seen, 1.0)
        below[1].set(title=f"Against length: r = {_n(r)} (A > 0 {_n(up)}, A < 0 {_n(down)})", ylabel="A_eff / A")
        _multipliers_over_time(below[2], history)
    else:
        _histogram(below[0], seen.step, seen.counts, seen.success, 0.0)
        below[0].set(title="A step's own credit", xlabel="A_eff − mean of its trajectory")
        _against_length(below[1], seen.step, seen.counts, seen, 0.0)
        r = report["step_length_correlation"]
        below[1].set(title=f"Against length: r = {_n(r)}", ylabel="A_eff − mean of its trajectory")
        _line(below[2], history, "step_share", "step share", GREY)
        below[2].set(title="Share of Var(A_eff) inside trajectories", ylabel="share", ylim=(0, 1))
        _iterations(below[2], history)
    for axes in grid.flat:
        axes.title.set_fontsize(11)
    iteration, count = int(history[-1]["iteration"]), int(seen.counts.sum())
    figure.suptitle(f"Credit of iteration {iteration}, {method}: {count} segments drawn", fontsize=13)
    figure.savefig(path, dpi=88, pil_kwargs={"optimize": True})


def _n(value: float) -> str:
    return f"{value:+.2f}" if isfinite(value) else "no data"


def _mean(values: Tensor) -> float:
    return float(values.mean()) if values.numel() else float("nan")


def _edges(values: Tensor, bins: int = 40) -> tuple[float, float, list[float]]:
    """Return the 1 % and 99 % quantiles, a little wider, and the edges between them."""
    low, high = (float(torch.quantile(values.float(), q)) for q in (0.01, 0.99))
    room = max(0.05 * (high - low), 1e-3)
    low, high = low - room, high + room
    return low, high, torch.linspace(low, high, bins + 1).tolist()


def _histogram(axes: Any, values: Tensor, where: Tensor, success: Tensor, neutral: float) -> None:
    """Draw the shares of success and failure; what lies outside the 1 % and 99 % quantiles counts in the last bars."""
    if not bool(where.any()):
        axes.text(0.5, 0.5, "no segment", ha="center", va="center", transform=axes.transAxes)
        return
    low, high, edges = _edges(values[where])
    for (name, colour), kind in zip(KINDS, (success, ~success), strict=True):
        mine = values[where & kind]
        if not mine.numel():
            continue
        share = torch.full_like(mine, 1.0 / mine.numel()).tolist()
        label = f"{name}: mean {_mean(mine):.3f} (n = {mine.numel()})"
        axes.hist(mine.clamp(low, high).tolist(), bins=edges, weights=share, color=colour, alpha=0.45, label=label)
        axes.axvline(_mean(mine), color=colour, linewidth=1.6)
    axes.axvline(neutral, color="black", linewidth=0.8, linestyle=":")
    axes.set(ylabel="share of the segments of its kind", xlim=(low, high), ylim=(0, 1.25 * axes.get_ylim()[1]))
    axes.legend(loc="upper left", frameon=False, fontsize=8)


def _gaps(axes: Any, seen: Seen) -> None:
    _histogram(axes, seen.gap, seen.scored, seen.success, 0.0)
    axes.set(title="Gap with the own hint", xlabel="mean gap, nats per token (edge bars hold the rest)")


def _control(axes: Any, control: Tensor, now: Mapping[str, float]) -> None:
    axes.set(title="Shuffled-teacher control", xlabel="gap with another task's hint, nats per token")
    axes.set_ylabel("gap with the own hint, nats per token")
    if not len(control):
        axes.text(0.5, 0.5, "no row has another task's hint", ha="center", va="center", transform=axes.transAxes)
        return
    own, other, success = control[:, 0], control[:, 1], control[:, 2] > 0
    low, high, _ = _edges(torch.cat([own, other]))
    axes.plot([low, high], [low, high], color="black", linewidth=0.8, linestyle=":")
    for (name, colour), kind in zip(KINDS, (success, ~success), strict=True):
        x, y = other[kind].clamp(low, high).tolist(), own[kind].clamp(low, high).tolist()
        axes.scatter(x, y, s=14, color=colour, alpha=0.6, linewidths=0, label=f"{name} (n = {len(x)})")
    lines = [
        f"own above other's: {now['control_above_share']:.0%}",
        f"mean difference: {now['control_difference']:+.3f}",
        f"correlation: {_n(now['control_correlation'])}",
    ]
    axes.text(0.03, 0.97, "\n".join(lines), va="top", fontsize=9, transform=axes.transAxes,
              bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0})  # fmt: skip
    axes.set(xlim=(low, high), ylim=(low, high))
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def _against_length(axes: Any, values: Tensor, where: Tensor, seen: Seen, neutral: float) -> None:
    axes.axhline(neutral, color="black", linewidth=0.8, linestyle=":")
    for (name, colour), kind in zip(KINDS, (seen.success, ~seen.success), strict=True):
        mine = where & kind
        shift = -0.12 if name == "success" else 0.12  # side by side: lengths are whole numbers
        axes.scatter(
            (seen.length[mine] + shift).tolist(), values[mine].tolist(), s=9, color=colour, alpha=0.35, linewidths=0,
            label=name,
        )  # fmt: skip
    counts = {n: int((where & (seen.length == n)).sum()) for n in sorted(set(seen.length[where].tolist()))}
    lengths = [n for n, count in counts.items() if count >= 5]
    axes.plot(lengths, [_mean(values[where & (seen.length == n)]) for n in lengths], color="black", marker="_",
              linewidth=1.0, label="mean of a length (n ≥ 5)")  # fmt: skip
    axes.set_xlabel("length of the segment, tokens")
    axes.legend(frameon=False, fontsize=8, loc="upper right")


def _line(
    axes: Any, history: Sequence[Mapping[str, float]], key: str, label: str, colour: str, style: str = "-"
) -> None:
    kept = [(row["iteration"], row[key]) for row in history if isfinite(row.get(key, float("nan")))]
    if kept:
        x, y = zip(*kept, strict=True)
        axes.plot(x, y, color=colour, linestyle=style, marker="o", markersize=4.5, label=label,
                  markerfacecolor=colour if style == "-" else "white")  # fmt: skip


def _band(axes: Any, history: Sequence[Mapping[str, float]], name: str, label: str, colour: str) -> None:
    kept = [row for row in history if isfinite(row[f"{name}_min"])]
    x, low, high = ([row[key] for row in kept] for key in ("iteration", f"{name}_min", f"{name}_max"))
    if len(kept) == 1:
        axes.vlines(x, low, high, color=colour, alpha=0.3, linewidth=12, label=label)
    elif kept:
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0, label=label)


def _iterations(axes: Any, history: Sequence[Mapping[str, float]]) -> None:
    from matplotlib.ticker import MaxNLocator

    first, last = history[0]["iteration"], history[-1]["iteration"]
    axes.set(xlabel="iteration", xlim=(first - 0.5, last + 0.5))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.3 * (high - low))
        axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)


def _gaps_over_time(axes: Any, history: Sequence[Mapping[str, float]]) -> None:
    axes.axhline(0.0, color="black", linewidth=0.8, linestyle=":")
    for name, colour in KINDS:
        _line(axes, history, f"gap_{name}_mean", f"{name}, own hint", colour)
        _line(axes, history, f"control_other_{name}_mean", f"{name}, control", colour, "--")
    axes.set(title="Mean gap", ylabel="nats per token")
    _iterations(axes, history)


def _multipliers_over_time(axes: Any, history: Sequence[Mapping[str, float]]) -> None:
    _band(axes, history, "multiplier", "multiplier, least to most", GREY)
    _band(axes, history, "z", "Z, least to most", SUCCESS)
    _line(axes, history, "z_mean", "Z, mean", SUCCESS)
    axes.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
    axes.set(title="Multiplier and normaliser", ylabel="factor")
    _iterations(axes, history)
