"""GraphGPO: GiGPO whose step value is the distance to success in the graph of all transitions of the group."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sharpo.algorithms.baseline import turn_values
from sharpo.algorithms.gigpo import Gigpo, anchor, next_anchor, once_for_a_group, turns_of
from sharpo.episode import EpisodeGroup
from sharpo.errors import ConfigError
from sharpo.functional.graph import goal_distances, just_beyond, step_worth


@dataclass(frozen=True, kw_only=True)
class GraphGpo(Gigpo):
    """A_k = w_E A^E_k + ω·(R_k − μ)/(σ + ε), R_k = c·γ^{d(next)} (arXiv 2605.26684).

    d = fewest steps to success over the edges anchor → next observation of the whole group; the last turn of a
    successful episode leads to success itself.

    Args:
        gamma: γ in (0, 1].
        episode_weight: w_E >= 0.
        goal_value: c > 0, the last step's worth; it matters beside penalties and without ``baseline.norm_by_std``.
        normalize_distance: R_k = c·γ^{d(next) − d(here) + 1}: what counts is the step, not how near it was made.
    """

    gamma: float = 0.1
    episode_weight: float = 1.0
    goal_value: float = 10.0
    normalize_distance: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.gamma > 0:
            raise ConfigError(f"algorithm.gamma must be in (0, 1]: it is raised to a distance; got {self.gamma}")
        if not self.episode_weight >= 0:
            raise ConfigError(f"algorithm.episode_weight must be >= 0, got {self.episode_weight}")
        if not self.goal_value > 0:
            raise ConfigError(f"algorithm.goal_value must be > 0, got {self.goal_value}")

    def base_advantages(self, group: EpisodeGroup) -> Tensor:
        """Return A_k for each turn of each episode in order, (S_g,) float32."""
        of_episode = self.episode_weight * self.baseline.advantages(*turn_values(group))
        return (of_episode + self.omega * self.step_advantages(*self.steps(group))).float()

    @once_for_a_group
    def steps(self, group: EpisodeGroup) -> tuple[Tensor, Tensor]:
        """Return R_k less the turn's penalty, (S_g,) float64, and the state each turn started from, (S_g,) int."""
        here, there, distance = self.graph(group)
        distance = just_beyond(distance)
        worth = step_worth(
            distance[here],
            distance[there],
            gamma=self.gamma,
            goal_value=self.goal_value,
            normalize_distance=self.normalize_distance,
        )
        return worth - torch.tensor([turn.penalty for turn in turns_of(group)], dtype=torch.float64), here

    @once_for_a_group
    def graph(self, group: EpisodeGroup) -> tuple[Tensor, Tensor, Tensor]:
        """Return each turn's edge, two (S_g,) int, and d of every node, (N,) float64; node N − 1 is success."""
        turns = turns_of(group)
        nodes = self.states([name for turn in turns for name in (anchor(turn), next_anchor(turn))])
        here, there = nodes[0::2], nodes[1::2].clone()
        goal = int(nodes.max()) + 1
        last = -1
        for episode in group.episodes:
            last += len(episode.turns)
            if episode.outcome.success:
                there[last] = goal
        return here, there, goal_distances(here, there, goal + 1, goal)

    @property
    def group_report_names(self) -> tuple[str, ...]:
        """GiGPO's, and the share of turns that led to a state from which success was reached."""
        return (*super().group_report_names, "reachable_share")

    def group_report(self, group: EpisodeGroup) -> dict[str, float]:
        """Return how much the step part has to say, by ``group_report_names``."""
        _, there, distance = self.graph(group)
        return super().group_report(group) | {"reachable_share": float(distance[there].isfinite().double().mean())}
