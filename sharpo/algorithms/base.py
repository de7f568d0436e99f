"""The hooks of a credit-assignment method."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sharpo.batch import Batch, LossOutput, PolicyOutput, Scores
from sharpo.episode import EpisodeGroup
from sharpo.functional.credit_report import credit_diagnostics
from sharpo.segments import Segments


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """Base of all methods: frozen, pure (no rank, no logger, no config object).

    The stages call, in this order: :meth:`base_advantages` on each group, :meth:`credit` on the scored table,
    :meth:`token_advantages` on each batch, :meth:`objective` on each micro-batch.
    """

    @property
    def needs_teacher(self) -> bool:
        """True when scoring must also run the policy on the hinted context."""
        return False

    @property
    def needs_reference(self) -> bool:
        """True when scoring must also run the frozen initial policy (a KL term)."""
        return False

    @property
    def needs_scores(self) -> bool:
        """False when nothing has to be scored before the update (imitation); Scores are then all NaN."""
        return True

    @property
    def scores_context(self) -> bool:
        """True when the objective also reads the log-probability of context tokens (all of ``attention``)."""
        return False

    @property
    def needs_entropy(self) -> bool:
        """True when the objective reads the entropy of the current policy."""
        return False

    @property
    def hinted_share(self) -> float:
        """Share of the episodes of a group whose *student* row carries the hint (warm starts); the last ones."""
        return 0.0

    @property
    def span(self) -> str:
        """Which span of a turn is the segment: ``action``, ``action_with_tags``, ``think`` or ``turn``."""
        return "action"

    def base_advantages(self, group: EpisodeGroup) -> Tensor:
        """Return A_k, one for each turn of each episode in order, (S_g,) float."""
        raise NotImplementedError(f"{type(self).__name__} must define base_advantages")

    def credit(self, segments: Segments, iteration: int) -> Tensor:
        """Return the effective advantage of each segment's span, (S,) float; default: the base advantage."""
        del iteration
        return segments.base

    def report(self, segments: Segments, credit: Tensor) -> dict[str, Tensor]:
        """Return what the credit looked like, as scalars: the same names for every table, NaN = no data."""
        return credit_diagnostics(segments, credit)

    def token_advantages(self, batch: Batch, scores: Scores, segments: Segments, credit: Tensor) -> Tensor:
        """Spread over tokens: ``credit`` inside the span, the base advantage on the turn's other tokens, 0 elsewhere.

        Args:
            batch: B rows of T tokens.
            scores: the batch's log-probabilities, for methods that act on tokens.
            segments: the rank's table.
            credit: (S,) float from :meth:`credit`.

        Returns:
            (B, T) float.
        """
        del scores
        index = batch.segment_index.clamp(min=0)
        spread = torch.where(batch.span_mask, credit[index], segments.base[index])
        return torch.where(batch.action_mask & (batch.segment_index >= 0), spread, torch.zeros_like(spread))

    def objective(self, output: PolicyOutput, scores: Scores, batch: Batch) -> LossOutput:
        """Return the loss of one micro-batch, divided by the update's global count."""
        raise NotImplementedError(f"{type(self).__name__} must define objective")
