"""SCPO: GiGPO whose failed episodes earn a bonus for each step that comes further along a successful sibling."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from sharpo.algorithms.gigpo import Gigpo, anchor, once_for_a_group
from sharpo.algorithms.shaped import one_of
from sharpo.episode import Episode, EpisodeGroup, Turn
from sharpo.errors import ConfigError
from sharpo.functional.progress import monotone_progress

Step = tuple[str, str]
"""What a step is compared by: its observation and its action."""
Sibling = Literal["shortest", "first"]
BonusAt = Literal["reward", "return"]


class Similarity(Protocol):
    """A frozen judge of how much two steps are the same move from the same place."""

    def __call__(self, failed: Sequence[Step], successful: Sequence[Step]) -> Tensor:
        """Return the match of every failed step with every successful one, (K, N) float in [0, 1]."""
        ...


@dataclass(frozen=True, kw_only=True)
class TokenOverlap:
    """s = (1 − a)·J(observations) + a·J(actions), J = shared words over all words (Jaccard); needs no model.

    Our stand-in: the paper's judge is a pretrained re-ranker, see :class:`sharpo.policy.reranker.Reranker`.

    Args:
        action_share: a in [0, 1] (ours; the paper has no such constant).

    Example:
        >>> TokenOverlap()([("You see a mug.", "take mug")], [("You see a mug.", "go to sink")]).tolist()
        [[0.5]]
    """

    action_share: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.action_share <= 1:
            raise ConfigError(f"algorithm.similarity.action_share must be in [0, 1], got {self.action_share}")

    def __call__(self, failed: Sequence[Step], successful: Sequence[Step]) -> Tensor:
        """Return the match of every failed step with every successful one, (K, N) float64 in [0, 1]."""
        shares = (1 - self.action_share, self.action_share)
        references = [_words(step) for step in successful]
        scores = [
            [
                sum(share * _jaccard(a, b) for share, a, b in zip(shares, mine, other, strict=True))
                for other in references
            ]
            for mine in map(_words, failed)
        ]
        return torch.tensor(scores, dtype=torch.float64).reshape(len(failed), len(successful))


def _words(step: Step) -> tuple[frozenset[str], frozenset[str]]:
    observation, action = (frozenset(re.findall(r"\w+", text.lower())) for text in step)
    return observation, action


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a or b else 1.0


@dataclass(frozen=True, kw_only=True)
class Scpo(Gigpo):
    """r_k ← r_k + β·1[s_k > s₀ and p_k > p*]·(p_k − p*)/N in failed episodes, then GiGPO (arXiv 2606.25852).

    s_k is step k's best match among the N steps of one successful sibling, p_k that step's place, p* the furthest
    place reached before. A_E stays GRPO's, on the environment's own rewards. A group without a success, or without a
    failure, is GiGPO's, bit for bit. The constants marked *undisclosed* are ours: the paper's are not known.

    Args:
        similarity: the frozen judge (undisclosed which; the paper names only its kind, a re-ranker).
        beta: β >= 0 in units of the environment's reward, the most an episode can earn (undisclosed).
        threshold: s₀, above which a match counts (undisclosed; 0.9 fits ``TokenOverlap``, 0.5 a re-ranker).
        sibling: ``shortest`` success of the group, or the ``first`` (undisclosed).
        bonus_at: ``reward`` adds to r_k, so earlier steps share it, discounted; ``return`` adds to R_k (undisclosed).
    """

    similarity: Similarity = field(default_factory=TokenOverlap)
    beta: float = 1.0
    threshold: float = 0.9
    sibling: Sibling = "shortest"
    bonus_at: BonusAt = "reward"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.sibling, Sibling, "sibling")
        one_of(self.bonus_at, BonusAt, "bonus_at")
        if not callable(self.similarity):
            raise ConfigError(f"algorithm.similarity must be a similarity with a _target_; got {self.similarity!r}")
        if not self.beta >= 0:
            raise ConfigError(f"algorithm.beta must be >= 0: a bonus, never a penalty; got {self.beta}")

    def step_rewards(self, group: EpisodeGroup) -> Tensor:
        """Return r_k, with the bonus where it is part of the reward, (S_g,) float64."""
        rewards = super().step_rewards(group)
        return rewards + self.beta * self.progress(group) if self.bonus_at == "reward" else rewards

    @once_for_a_group
    def steps(self, group: EpisodeGroup) -> tuple[Tensor, Tensor]:
        """Return R_k less the turn's penalty, (S_g,) float64, and the anchor of each turn, (S_g,) int."""
        returns, anchors = super().steps(group)
        return (returns + self.beta * self.progress(group) if self.bonus_at == "return" else returns), anchors

    @once_for_a_group
    def progress(self, group: EpisodeGroup) -> Tensor:
        """Return (p_k − p*)/N of every turn, (S_g,) float64: 0 in successful episodes and without a sibling."""
        reference = self._sibling(group)
        failed = [turn for episode in group.episodes if not episode.outcome.success for turn in episode.turns]
        if reference is None or not failed:
            return torch.zeros(sum(len(episode.turns) for episode in group.episodes), dtype=torch.float64)
        scores = self.similarity([_step(turn) for turn in failed], [_step(turn) for turn in reference.turns]).double()
        scores[torch.tensor([turn.action is None for turn in failed])] = -torch.inf
        scores[:, torch.tensor([turn.action is None for turn in reference.turns])] = -torch.inf
        parts, at = [], 0
        for episode in group.episodes:
            turns = len(episode.turns)
            if episode.outcome.success:
                parts.append(torch.zeros(turns, dtype=torch.float64))
            else:
                parts.append(monotone_progress(scores[at : at + turns], self.threshold))
                at += turns
        return torch.cat(parts)

    def _sibling(self, group: EpisodeGroup) -> Episode | None:
        won = [episode for episode in group.episodes if episode.outcome.success]
        if self.sibling == "first":
            return won[0] if won else None
        return min(won, key=lambda episode: len(episode.turns), default=None)

    @property
    def group_report_names(self) -> tuple[str, ...]:
        """GiGPO's; the share of failed turns with a bonus, and how far along the sibling failed episodes came."""
        return (*super().group_report_names, "bonus_share", "sibling_progress")

    def group_report(self, group: EpisodeGroup) -> dict[str, float]:
        """Return how much the step part has to say; the last two are NaN in a group without a failed sibling pair."""
        failed = [episode for episode in group.episodes if not episode.outcome.success]
        if not failed or self._sibling(group) is None:
            return super().group_report(group) | dict.fromkeys(("bonus_share", "sibling_progress"), float("nan"))
        progress = self.progress(group)
        return super().group_report(group) | {
            "bonus_share": int((progress > 0).sum()) / sum(len(episode.turns) for episode in failed),
            "sibling_progress": float(progress.sum()) / len(failed),
        }


def _step(turn: Turn) -> Step:
    return anchor(turn), turn.action or ""
