"""Torchmetrics of episodes: integer counts that add up over ranks, never means of means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from sharpo.episode import Episode

_STEPS = 1000  # scores are counted in steps of 1/1000
HOUSEHOLD_FAMILIES = ("pick", "look", "clean", "heat", "cool", "pick2")


class SuccessByFamily(Metric):
    """Successes over episodes by task family and over all, and scores: counts over counts, summed over ranks.

    Args:
        families: the environment's families; an episode of another family is refused.
        no_effect: the environment's fixed answer to an action without effect, to count; None = it has none.

    Example:
        >>> SuccessByFamily(("pick", "look")).families
        ('pick', 'look')
    """

    full_state_update = False
    successes: Tensor
    episodes: Tensor
    turns: Tensor
    invalid: Tensor
    without_effect: Tensor
    scores: Tensor

    def __init__(self, families: Sequence[str] = HOUSEHOLD_FAMILIES, no_effect: str | None = None) -> None:
        super().__init__()
        self.no_effect = no_effect
        self.families = tuple(families)
        if "all" in self.families or len(set(self.families)) != len(self.families) or not self.families:
            raise ValueError(f"SuccessByFamily: families must be distinct names other than 'all', got {families}")
        zeros = torch.zeros(len(self.families), dtype=torch.int64)
        for name in ("successes", "episodes"):
            self.add_state(name, default=zeros.clone(), dist_reduce_fx="sum")
        self.add_state("scores", default=torch.zeros(_STEPS + 1, dtype=torch.int64), dist_reduce_fx="sum")
        for name in ("turns", "invalid", "without_effect"):
            self.add_state(name, default=torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, episodes: Iterable[Episode]) -> None:
        """Count episodes, their turns, the turns without a valid action and those without effect."""
        for episode in episodes:
            if episode.task.family not in self.families:
                raise ValueError(
                    f"SuccessByFamily: task {episode.task.id!r} has family {episode.task.family!r}, "
                    f"which is not one of {self.families}"
                )
            row = self.families.index(episode.task.family)
            self.episodes[row] += 1
            self.successes[row] += int(episode.outcome.success)
            self.scores[round(_STEPS * episode.outcome.score)] += 1
            played = [turn for turn in episode.turns if turn.prompt_ids]  # an episode that never began has none
            self.turns += len(played)
            self.invalid += sum(turn.action is None or turn.invalid for turn in played)
            if self.no_effect is not None:
                self.without_effect += sum(turn.next_observation.strip() == self.no_effect for turn in played)

    def compute(self) -> dict[str, tuple[int, int]]:
        """Return ``{family: (successes, episodes)}`` and ``all``."""
        pairs = zip(self.successes.tolist(), self.episodes.tolist(), strict=True)
        counts = {family: (int(won), int(seen)) for family, (won, seen) in zip(self.families, pairs, strict=True)}
        counts["all"] = (int(self.successes.sum()), int(self.episodes.sum()))
        return counts

    def turn_counts(self) -> tuple[int, int, int]:
        """Return (turns, those without a valid action, those without effect), summed over ranks."""
        with self.sync_context():
            return int(self.turns), int(self.invalid), int(self.without_effect)

    def score_values(self) -> list[float]:
        """Return the score of every episode over all ranks, rounded to 1/1000, in rising order."""
        with self.sync_context():
            counts = self.scores.tolist()
        return [step / _STEPS for step, count in enumerate(counts) for _ in range(count)]


class MeanOverTokens(Metric):
    """Mean of a quantity over the tokens a mask marks: Σ x·m / Σ m over all updates and ranks; NaN without tokens.

    Example:
        >>> metric = MeanOverTokens()
        >>> metric.update(torch.tensor([[1.0, float("nan")]]), torch.tensor([[True, False]]))
        >>> metric.compute().item()
        1.0
    """

    full_state_update = False
    total: Tensor
    tokens: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", default=torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("tokens", default=torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, values: Tensor, mask: Tensor) -> None:
        """Add the values (B, T) at the marked positions (B, T) bool."""
        kept = values.detach()[mask]
        self.total += kept.double().sum()
        self.tokens += kept.numel()

    def compute(self) -> Tensor:
        """Return the mean, () float64."""
        return self.total / self.tokens
