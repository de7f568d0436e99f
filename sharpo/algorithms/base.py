"""The hooks of a credit-assignment method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sharpo.batch import Batch, Divergence, LossOutput, PolicyOutput, Scores
from sharpo.episode import EpisodeGroup
from sharpo.functional.credit_report import credit_diagnostics
from sharpo.functional.segment_ops import index_size, segment_any
from sharpo.segments import Segments


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """Base of all methods: frozen, pure (no rank, no logger, no config object).

    The stages call, in this order: :meth:`keeps` and :meth:`base_advantages` on each group, :meth:`credit` on the
    scored table, :meth:`advantages` on the rank's batches (:meth:`token_advantages` on each), :meth:`objective` on
    each micro-batch.
    """

    @property
    def needs_teacher(self) -> bool:
        """True when scoring must also run the policy on the hinted context."""
        return False

    @property
    def reads_hint(self) -> bool:
        """True when anybody is shown a hint: a teacher, or a share of the episodes themselves."""
        return self.needs_teacher or bool(self.hinted_share)

    def teaches_at(self, iteration: int) -> bool:
        """Return False in an iteration whose teacher would not be read (a schedule that has run out)."""
        del iteration
        return self.needs_teacher

    @property
    def teaches_uncredited(self) -> bool:
        """True when the teacher is also read where an episode's base advantages are all 0 (an auxiliary loss)."""
        return False

    @property
    def acts_on_tokens(self) -> bool:
        """True when the teacher's log-probability of every sampled token is read, not only of the segments'."""
        return False

    def teacher_reads(self, segments: Segments) -> Tensor:
        """Return the segments whose rows the teacher scores, (S,) bool: hinted, and of an episode with an advantage.

        Narrow it where more segments keep their base advantage whatever the teacher says: their rows cost no pass.
        """
        useful = segments.hinted if self.acts_on_tokens else segments.selected
        if self.teaches_uncredited:
            return useful
        return (
            useful & segment_any(segments.base != 0, segments.episode, index_size(segments.episode))[segments.episode]
        )

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
    def divergence(self) -> Divergence | None:
        """What the update compares with the teacher's distributions (it then runs in every micro-batch); or None."""
        return None

    @property
    def hinted_share(self) -> float:
        """Share of the episodes of a group whose *student* row carries the hint (warm starts); the last ones."""
        return 0.0

    @property
    def span(self) -> str:
        """Which span of a turn is the segment: ``action``, ``action_with_tags``, ``think`` or ``turn``."""
        return "action"

    def keeps(self, group: EpisodeGroup) -> bool:
        """Return False for a group that is left out of the update, and counted (``rollout/groups_dropped``)."""
        del group
        return True

    def base_advantages(self, group: EpisodeGroup) -> Tensor:
        """Return A_k, one for each turn of each episode in order, (S_g,) float."""
        raise NotImplementedError(f"{type(self).__name__} must define base_advantages")

    @property
    def group_report_names(self) -> tuple[str, ...]:
        """The names of :meth:`group_report`."""
        return ()

    def group_report(self, group: EpisodeGroup) -> dict[str, float]:
        """Return what the base advantages of a group looked like, by ``group_report_names``; NaN = no data.

        Means over the groups are logged as ``rollout/group_<name>``.
        """
        del group
        return {}

    def credit(self, segments: Segments, iteration: int) -> Tensor:
        """Return the effective advantage of each segment's span, (S,) float; default: the base advantage."""
        del iteration
        return segments.base

    def report(self, segments: Segments, credit: Tensor) -> dict[str, Tensor]:
        """Return what the credit looked like, as scalars: the same names for every table, NaN = no data.

        Args:
            segments: the scored table.
            credit: mean advantage of the tokens of each segment's span, (S,) float: what the update will see.
        """
        return credit_diagnostics(segments, credit)

    def advantages(
        self, batches: Sequence[Batch], scores: Sequence[Scores], segments: Segments, credit: Tensor, iteration: int
    ) -> list[Tensor]:
        """Return the advantage of every token, (B, T) float for each of the rank's batches.

        Override it only where a token's advantage depends on tokens of other rows; else :meth:`token_advantages`.
        """
        return [
            self.token_advantages(batch, scored, segments, credit, iteration)
            for batch, scored in zip(batches, scores, strict=True)
        ]

    def token_advantages(
        self, batch: Batch, scores: Scores, segments: Segments, credit: Tensor, iteration: int
    ) -> Tensor:
        """Spread over tokens: ``credit`` inside the span, the base advantage on the turn's other tokens, 0 elsewhere.

        Args:
            batch: B rows of T tokens.
            scores: the batch's log-probabilities, for methods that act on tokens.
            segments: the rank's table.
            credit: (S,) float from :meth:`credit`.
            iteration: counts from 0, for methods with a schedule.

        Returns:
            (B, T) float.
        """
        del scores, iteration
        if not len(segments):
            return torch.zeros(batch.action_mask.shape)
        index = batch.segment_index.clamp(min=0)
        spread = torch.where(batch.span_mask, credit[index], segments.base[index])
        return torch.where(batch.action_mask & (batch.segment_index >= 0), spread, torch.zeros_like(spread))

    def objective(self, output: PolicyOutput, scores: Scores, batch: Batch) -> LossOutput:
        """Return the loss of one micro-batch, divided by the update's global count."""
        raise NotImplementedError(f"{type(self).__name__} must define objective")
