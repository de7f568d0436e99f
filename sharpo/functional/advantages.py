"""Group-relative advantages."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sharpo.functional.segment_ops import index_size, segment_count, segment_extent, segment_mean, segment_sum
from sharpo.shapes import expect

Scope = Literal["rows", "trajectories"]


def _compact(index: Tensor) -> Tensor:
    """Renumber an index to 0, 1, 2 ... in the order of its values."""
    return torch.searchsorted(torch.unique(index), index)


def _first_rows(trajectory: Tensor) -> Tensor:
    """Return a mask of the first row of each trajectory, (S,) bool."""
    rows = torch.arange(trajectory.shape[0], device=trajectory.device, dtype=torch.float64)
    first, _ = segment_extent(rows, trajectory, index_size(trajectory))
    return rows == first[trajectory]


def group_relative(
    returns: Tensor,
    episode: Tensor,
    group: Tensor | None = None,
    *,
    scope: Scope = "rows",
    norm_by_std: bool = True,
    correction: int = 1,
    eps: float = 1e-6,
) -> Tensor:
    """A_k = (S_k − μ_g) / (σ_g + ε): how much better than its group a turn's return is. Detached.

    GRPO (arXiv 2402.03300, §4.1). With ``scope="rows"`` μ and σ run over every turn of the group, so long episodes
    weigh more (the common code for multi-turn agents); with ``"trajectories"`` over the first turn of each episode.
    Where the entries behind a group's statistics are all equal there is no scale, and A_k = S_k − μ_g: exactly 0 for
    equal returns.
    Computed in fp64, so that rounding in μ is never divided by ε.

    Args:
        returns: S_k, the episode's return less the turn's own penalty, (S,) float.
        episode: episode of each turn, (S,) int, distinct across groups.
        group: group of each turn, (S,) int; None = one group.
        scope: what the statistics run over.
        norm_by_std: divide by σ_g + ε.
        correction: 1 = unbiased variance (n − 1), 0 = population variance.
        eps: ε.

    Returns:
        (S,) float, the dtype of ``returns``.

    Raises:
        ValueError: when a group has fewer than two episodes, or ``scope`` or ``correction`` is unknown.

    Example:
        >>> group_relative(torch.tensor([1.0, 0.0]), torch.tensor([0, 1]), norm_by_std=False).tolist()
        [0.5, -0.5]
    """
    if scope not in ("rows", "trajectories"):
        raise ValueError(f"stats_scope must be 'rows' or 'trajectories', got {scope!r}")
    if correction not in (0, 1):
        raise ValueError(f"correction must be 0 (population) or 1 (unbiased), got {correction}")
    sizes = expect(returns, "S", "float", name="returns")
    expect(episode, "S", "int", name="episode", **sizes)
    group = torch.zeros_like(episode) if group is None else group
    expect(group, "S", "int", name="group", **sizes)
    episode, group = _compact(episode), _compact(group)
    groups = index_size(group)
    first = _first_rows(episode)
    members = segment_count(group, groups, first)
    if groups and int(members.min()) < 2:
        raise ValueError(
            f"a group has {int(members.min())} episode(s); group-relative advantages need G >= 2: "
            "set data.sizes.group_size to 2 or more"
        )
    counted = torch.ones_like(first) if scope == "rows" else first
    exact = returns.detach().double()
    low, high = segment_extent(exact, group, groups, counted)
    flat = low == high
    mean = torch.where(flat, low, segment_mean(exact, group, groups, counted))
    centred = exact - mean[group]
    if not norm_by_std:
        return centred.to(returns.dtype)
    divisor = segment_count(group, groups, counted).double() - correction
    std = (segment_sum(centred.square(), group, groups, counted) / divisor).sqrt()
    scale = torch.where(flat, torch.ones_like(std), std + eps)
    return (centred / scale[group]).to(returns.dtype)
