"""GiGPO: beside the episode's advantage, how much better a step did than others from the same state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from sharpo.algorithms.baseline import turn_values
from sharpo.algorithms.grpo import Grpo
from sharpo.episode import EpisodeGroup, Turn
from sharpo.errors import ConfigError
from sharpo.functional.anchors import alone, discounted_returns, exact_anchors, relative_to_slot, similar_anchors

_M = TypeVar("_M")
_T = TypeVar("_T")


def once_for_a_group(method: Callable[[_M, EpisodeGroup], _T]) -> Callable[[_M, EpisodeGroup], _T]:
    """Remember the last answer of a pure method: base advantages and report ask the same of one group after another."""
    last: list[Any] = [None, None, None]

    @functools.wraps(method)
    def remembered(self: _M, group: EpisodeGroup) -> _T:
        if last[0] is not self or last[1] is not group:
            last[:] = self, group, method(self, group)
        return last[2]

    return remembered


def anchor(turn: Turn) -> str:
    """Return what names the state a turn started from: its raw observation, no history, one space for any blank."""
    return " ".join(turn.observation.split())


def next_anchor(turn: Turn) -> str:
    """Return what names the state a turn led to, in the form of :func:`anchor`."""
    return " ".join(turn.next_observation.split())


def turns_of(group: EpisodeGroup) -> list[Turn]:
    """Return the turns of all episodes, in order."""
    return [turn for episode in group.episodes for turn in episode.turns]


@dataclass(frozen=True, kw_only=True)
class Gigpo(Grpo):
    """A_k = A^E_k + ω·(R_k − μ)/(σ + ε), μ and σ over the steps of the group from the same anchor (arXiv 2505.10978).

    A^E is GRPO's; R_k = r_k + γ R_{k+1}, less the turn's own penalty after discounting. A step that is alone at its
    anchor has no step advantage. ``baseline.norm_by_std`` holds for both parts: true is the method's
    ``mean_std_norm``, false its ``mean_norm``.

    Args:
        gamma: γ in [0, 1].
        omega: ω >= 0; 0 is GRPO.
        anchor_similarity: None = the same text is the same state; or the ratio in (0, 1] from which two texts are, see
            :func:`sharpo.functional.anchors.similar_anchors`.
    """

    gamma: float = 0.95
    omega: float = 1.0
    anchor_similarity: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.gamma <= 1:
            raise ConfigError(f"algorithm.gamma must be in [0, 1], got {self.gamma}")
        if not self.omega >= 0:
            raise ConfigError(f"algorithm.omega must be >= 0, got {self.omega}")
        if self.anchor_similarity is not None and not 0 < self.anchor_similarity <= 1:
            raise ConfigError(
                "algorithm.anchor_similarity must be in (0, 1], or null for identical texts; "
                f"got {self.anchor_similarity}"
            )

    def base_advantages(self, group: EpisodeGroup) -> Tensor:
        """Return A_k for each turn of each episode in order, (S_g,) float32."""
        of_episode = self.baseline.advantages(*turn_values(group))
        return (of_episode + self.omega * self.step_advantages(*self.steps(group))).float()

    def step_advantages(self, values: Tensor, anchors: Tensor) -> Tensor:
        """Return A^S from R_k, (S_g,) float, and the anchor of each turn, (S_g,) int; (S_g,) float64."""
        return relative_to_slot(
            values, anchors, norm_by_std=self.baseline.norm_by_std, correction=self.baseline.correction
        )

    @once_for_a_group
    def steps(self, group: EpisodeGroup) -> tuple[Tensor, Tensor]:
        """Return R_k less the turn's penalty, (S_g,) float64, and the anchor of each turn, (S_g,) int."""
        turns = turns_of(group)
        penalty = torch.tensor([turn.penalty for turn in turns], dtype=torch.float64)
        returns = discounted_returns(self.step_rewards(group), turn_values(group)[1], self.gamma)
        return returns - penalty, self.states([anchor(turn) for turn in turns])

    def step_rewards(self, group: EpisodeGroup) -> Tensor:
        """Return r_k of each turn, before discounting, (S_g,) float64."""
        return torch.tensor([turn.reward for turn in turns_of(group)], dtype=torch.float64)

    def states(self, texts: Sequence[str]) -> Tensor:
        """Return the number of the state that each text names, (N,) int."""
        if self.anchor_similarity is None:
            return exact_anchors(texts)
        return similar_anchors(texts, self.anchor_similarity)

    @property
    def group_report_names(self) -> tuple[str, ...]:
        """Share of turns alone at their anchor, share without a step advantage, and mean turns per anchor."""
        return ("singleton_share", "step_zero_share", "anchor_turns")

    def group_report(self, group: EpisodeGroup) -> dict[str, float]:
        """Return how much the step part has to say, by ``group_report_names``."""
        values, anchors = self.steps(group)
        return {
            "singleton_share": float(alone(anchors).double().mean()),
            "step_zero_share": float((self.step_advantages(values, anchors) == 0).double().mean()),
            "anchor_turns": len(anchors) / (int(anchors.max()) + 1),
        }
