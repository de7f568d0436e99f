"""StepOPSD: each token of a failed episode's steps, reweighted by what hindsight of a successful peer says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sharpo.algorithms.shaped import Shaped, one_of
from sharpo.batch import Batch, Scores
from sharpo.errors import ConfigError
from sharpo.functional.credit import Select, select_segments
from sharpo.functional.credit_report import credit_diagnostics
from sharpo.functional.segment_ops import segment_count, segment_sum, spread
from sharpo.functional.token_credit import TokenWeight, equal_step_factor, scored_tokens, token_multiplier
from sharpo.ranges import refuse_unread
from sharpo.segments import Segments

Span = Literal["action", "action_with_tags", "think", "turn"]
StepNorm = Literal["none", "equal_step_mean_abs"]


@dataclass(frozen=True, kw_only=True)
class StepOpsd(Shaped):
    """A_eff,t = A · [(1 − λ) + λ w_t] inside a step, w_t = clip(2σ(sign(A)·Δ_t), 1 − α, 1 + α) (arXiv 2605.27140).

    Outside the steps, without a hint, and where ``select`` says so, the base advantage stays bit for bit.

    Args:
        lam: λ of the first iteration, in [0, 1]; 0.2 and 0.05 are the published values.
        lambda_schedule: ``constant`` or ``linear_to_zero(N)``; when λ is 0 the run is GRPO.
        span: which tokens of a turn are the step: ``action``, ``action_with_tags``, ``think``, ``turn``.
        weight: ``sigmoid`` 2σ(x) or ``exp`` eˣ.
        alpha: half-width α of the clip, in (0, 1].
        step_norm: ``none``, or ``equal_step_mean_abs``: see
            :func:`sharpo.functional.token_credit.equal_step_factor`.
        step_clip: c >= 1 bounds the normaliser's factor to [1/c, c].
        select: ``failed_only``, ``has_other_success`` or ``mixed_groups_only``.
    """

    lambda_schedule: str = "linear_to_zero(50)"
    span: Span = "action"  # pyright: ignore[reportIncompatibleMethodOverride]
    weight: TokenWeight = "sigmoid"
    alpha: float = 0.2
    step_norm: StepNorm = "none"
    step_clip: float = 2.0
    select: Select = "failed_only"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.span, Span, "span")
        one_of(self.weight, TokenWeight, "weight")
        one_of(self.step_norm, StepNorm, "step_norm")
        one_of(self.select, Select, "select")
        if not 0 < self.alpha <= 1:
            raise ConfigError(f"algorithm.alpha must be in (0, 1]: no weight is negative; got {self.alpha}")
        if not self.step_clip >= 1:
            raise ConfigError(f"algorithm.step_clip must be >= 1, got {self.step_clip}")
        if self.step_norm == "none":
            choice = "step_norm=equal_step_mean_abs"
            refuse_unread("algorithm", type(self), {"step_clip": self.step_clip}, choice)

    def advantages(
        self, batches: Sequence[Batch], scores: Sequence[Scores], segments: Segments, credit: Tensor, iteration: int
    ) -> list[Tensor]:
        """Return A_eff of every token, (B, T) float for each batch; the steps of an episode may lie in several."""
        shaped = super().advantages(batches, scores, segments, credit, iteration)
        if self.step_norm == "none" or not len(segments):
            return shaped
        pairs = list(zip(batches, scores, strict=True))
        masks = [self._tokens(batch, scored, segments) for batch, scored in pairs]
        factor = self._step_factor(batches, scores, segments, masks, iteration).to(segments.base.dtype)
        return [
            torch.where(mask, grid * spread(factor, batch.segment_index, mask), grid)
            for grid, batch, mask in zip(shaped, batches, masks, strict=True)
        ]

    def token_advantages(
        self, batch: Batch, scores: Scores, segments: Segments, credit: Tensor, iteration: int
    ) -> Tensor:
        """Return A_eff of every token before the step normaliser, (B, T) float.

        Raises:
            ValueError: when a segment is selected, λ is not 0 and no teacher was run.
        """
        base = super().token_advantages(batch, scores, segments, credit, iteration)
        return base * self._multiplier(batch, scores, segments, self._tokens(batch, scores, segments), iteration)

    def report(self, segments: Segments, credit: Tensor) -> dict[str, Tensor]:
        """Return what the credit of the selected steps looked like."""
        return credit_diagnostics(segments, credit, selected=self._selected(segments))

    def _selected(self, segments: Segments) -> Tensor:
        return select_segments(segments.selected, segments.success, segments.group, self.select)

    def _tokens(self, batch: Batch, scores: Scores, segments: Segments) -> Tensor:
        """Return the tokens that are reweighted, (B, T) bool."""
        chosen = self._selected(segments)
        if scores.teacher_logp is None:
            return torch.zeros_like(batch.span_mask)
        return scored_tokens(chosen, batch.segment_index, batch.span_mask & batch.action_mask, scores.teacher_logp)

    def _multiplier(self, batch: Batch, scores: Scores, segments: Segments, mask: Tensor, iteration: int) -> Tensor:
        lam = self.lambda_at(iteration)
        if lam == 0 or not bool(self._selected(segments).any()):
            return torch.ones_like(batch.action_mask, dtype=segments.base.dtype)
        if scores.teacher_logp is None:
            raise ValueError("Scores.teacher_logp is None: score the hinted rows before StepOPSD's credit")
        base = spread(segments.base, batch.segment_index, mask)
        return token_multiplier(
            scores.old_logp, scores.teacher_logp, base, mask, kind=self.weight, alpha=self.alpha, lam=lam
        )

    def _step_factor(
        self,
        batches: Sequence[Batch],
        scores: Sequence[Scores],
        segments: Segments,
        masks: Sequence[Tensor],
        iteration: int,
    ) -> Tensor:
        """Return c_k of each step, (S,) float64: sums of equal numbers stay exact, so equal steps get exactly 1."""
        size = len(segments)
        total = torch.zeros(size, dtype=torch.float64)
        tokens = torch.zeros(size, dtype=torch.float64)
        for batch, scored, mask in zip(batches, scores, masks, strict=True):
            multiplier = self._multiplier(batch, scored, segments, mask, iteration).double()
            total += segment_sum(multiplier, batch.segment_index, size, mask)
            tokens += segment_count(batch.segment_index, size, mask)
        usable = (tokens > 0) & (segments.base != 0)
        return equal_step_factor(total / tokens.clamp(min=1), usable, segments.episode, clip=self.step_clip)
