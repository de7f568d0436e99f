"""How far every state is from success, and what a step towards it is worth."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from sharpo.shapes import expect


def goal_distances(source: Tensor, target: Tensor, nodes: int, goal: int) -> Tensor:
    """d(s) = fewest steps from s to the goal over the edges seen; +inf where there is no way.

    Args:
        source: node that each step left, (S,) int.
        target: node that it reached, (S,) int.
        nodes: number of nodes N.
        goal: the goal's node.

    Returns:
        (N,) float64.

    Example:
        >>> goal_distances(torch.tensor([0, 1, 2]), torch.tensor([1, 3, 2]), 4, 3).tolist()
        [2.0, 1.0, inf, 0.0]
    """
    expect(target, "S", "int", name="target", **expect(source, "S", "int", name="source"))
    before: list[list[int]] = [[] for _ in range(nodes)]
    for left, reached in zip(source.tolist(), target.tolist(), strict=True):
        before[reached].append(left)
    distance = {goal: 0}
    queue = deque([goal])
    while queue:
        node = queue.popleft()
        for previous in before[node]:
            if previous not in distance:
                distance[previous] = distance[node] + 1
                queue.append(previous)
    return torch.tensor([distance.get(node, float("inf")) for node in range(nodes)], dtype=torch.float64)


def just_beyond(distance: Tensor) -> Tensor:
    """Put every node without a way one step beyond the farthest node that has one, (N,) float.

    Where nothing leads to the goal, the farthest is the goal itself, at 0, and every other node is at 1.

    Example:
        >>> just_beyond(torch.tensor([2.0, torch.inf, 0.0])).tolist()
        [2.0, 3.0, 0.0]
    """
    known = distance.isfinite()
    return torch.where(known, distance, distance[known].max() + 1)


def step_worth(
    here: Tensor, there: Tensor, *, gamma: float, goal_value: float = 10.0, normalize_distance: bool = False
) -> Tensor:
    """R_k = c·γ^{d(next)}, or c·γ^{d(next) − d(here) + 1}: c for every step along a shortest path. (S,) float64.

    Args:
        here: distance of the state that each step left, (S,) float.
        there: distance of the state that it reached, (S,) float.
        gamma: γ in (0, 1].
        goal_value: c.
        normalize_distance: the second form.

    Example:
        >>> here, there = torch.tensor([2.0, 1.0]), torch.tensor([1.0, 0.0])
        >>> step_worth(here, there, gamma=0.5).tolist()
        [5.0, 10.0]
        >>> step_worth(here, there, gamma=0.5, normalize_distance=True).tolist()
        [10.0, 10.0]
    """
    power = there.double() - here.double() + 1 if normalize_distance else there.double()
    return goal_value * gamma**power
