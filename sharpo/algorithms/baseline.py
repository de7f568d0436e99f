"""The group-relative baseline as a value: what a return is compared with, and which groups can teach anything."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sharpo.episode import EpisodeGroup
from sharpo.errors import ConfigError
from sharpo.functional.advantages import Scope, group_relative


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A_k = (S_k − μ_g)/(σ_g + ε): see :func:`sharpo.functional.advantages.group_relative`.

    Args:
        scope: μ and σ over the group's turns (``rows``: long episodes weigh more; the field's agent code) or over its
            episodes (``trajectories``: the textbook).
        norm_by_std: divide by σ_g + ε; False = Dr. GRPO's choice (arXiv 2503.20783): no group is blown up.
        correction: 1 = unbiased variance, 0 = population variance; they differ by 7 % at G = 8.
        min_spread: leave out of the update every group whose raw returns (penalties apart) differ by no more than
            this; None = keep all groups. The groups left out are counted.
    """

    scope: Scope = "rows"
    norm_by_std: bool = True
    correction: int = 1
    min_spread: float | None = None

    def __post_init__(self) -> None:
        if self.scope not in ("rows", "trajectories"):
            raise ConfigError(f"algorithm.baseline.scope must be rows or trajectories; got {self.scope!r}")
        if self.correction not in (0, 1):
            raise ConfigError(
                f"algorithm.baseline.correction must be 0 (population) or 1 (unbiased); got {self.correction}"
            )
        if self.min_spread is not None and not self.min_spread >= 0:
            raise ConfigError(f"algorithm.baseline.min_spread must be >= 0, or null to keep all; got {self.min_spread}")

    def advantages(self, values: Tensor, member: Tensor) -> Tensor:
        """Return A_k of one group from S_k, (S_g,) float64, and the episode of each turn, (S_g,) int."""
        return group_relative(
            values, member, scope=self.scope, norm_by_std=self.norm_by_std, correction=self.correction
        )

    def keeps(self, group: EpisodeGroup) -> bool:
        """Return False when the group's raw returns are all alike within ``min_spread``."""
        if self.min_spread is None:
            return True
        returns = [episode.episode_return for episode in group.episodes]
        return max(returns) - min(returns) > self.min_spread


def turn_values(group: EpisodeGroup) -> tuple[Tensor, Tensor]:
    """Return S_k = episode return − the turn's own penalty, (S_g,) float64, and each turn's episode, (S_g,) int."""
    rows = [
        (episode.episode_return - turn.penalty, member)
        for member, episode in enumerate(group.episodes)
        for turn in episode.turns
    ]
    return (
        torch.tensor([value for value, _ in rows], dtype=torch.float64),
        torch.tensor([member for _, member in rows]),
    )
