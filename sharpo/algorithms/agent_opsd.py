"""AgentOPSD: a turn is worth what it changes in the belief that the episode succeeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sharpo.algorithms.shaped import Shaped, one_of
from sharpo.errors import ConfigError
from sharpo.functional.credit import Select, bounded_weight, interpolate, mean_gap, select_segments
from sharpo.functional.credit_report import credit_diagnostics
from sharpo.functional.turn_credit import belief_change, success_rate
from sharpo.segments import Segments

Span = Literal["action", "action_with_tags", "think", "turn"]


@dataclass(frozen=True, kw_only=True)
class AgentOpsd(Shaped):
    """A_eff = A · [(1 − λ) + λ w_k], w = clip(1 + b·sign(A)·z(ΔB_k), 1 ± b) (arXiv 2608.05987).

    logit B_k = logit B_0 + Σ_{j<=k} Σ_t [log π_T − log π_S]; z = z-score inside the episode (population std).

    Args:
        lam: λ in [0, 1].
        span: which tokens of a turn are scored and reweighted: ``turn``, ``action``, ``action_with_tags``, ``think``.
        width: b in (0, 1].
        prior: B_0 in (0, 1), or ``success_rate``: that of the episode's group.
        select: ``has_other_success``, ``failed_only`` or ``mixed_groups_only``.
    """

    lam: float = 0.5
    span: Span = "turn"  # pyright: ignore[reportIncompatibleMethodOverride]
    width: float = 0.2
    prior: float | str = 0.5
    select: Select = "has_other_success"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.span, Span, "span")
        one_of(self.select, Select, "select")
        if not 0 < self.width <= 1:
            raise ConfigError(f"algorithm.width must be in (0, 1]: no weight is negative; got {self.width}")
        if self.prior != "success_rate" and (isinstance(self.prior, str) or not 0 < self.prior < 1):
            raise ConfigError(f"algorithm.prior must be a number in (0, 1) or success_rate; got {self.prior!r}")

    def credit(self, segments: Segments, iteration: int) -> Tensor:
        """Return A_eff of each turn, (S,) float.

        Raises:
            ValueError: when a selected turn is not scored and λ is not 0.
        """
        lam = self.lambda_at(iteration)
        if lam == 0 or not bool(self._selected(segments).any()):
            return segments.base
        return interpolate(segments.base, self._weight(segments), lam)

    def report(self, segments: Segments, credit: Tensor) -> dict[str, Tensor]:
        """Return what the credit of the selected turns looked like."""
        chosen = self._selected(segments)
        weight = self._weight(segments) if self.lam > 0 and bool(chosen.any()) else None
        return credit_diagnostics(segments, credit, selected=chosen, weight=weight)

    def _selected(self, segments: Segments) -> Tensor:
        return select_segments(segments.selected, segments.success, segments.group, self.select)

    def _weight(self, segments: Segments) -> Tensor:
        if segments.student_logp is None or segments.teacher_logp is None:
            raise ValueError("Segments has no student_logp or teacher_logp: score the table before AgentOPSD's credit")
        chosen = self._selected(segments)
        one = torch.ones_like(segments.length)  # the gap of the whole turn, not of one token
        evidence = mean_gap(segments.student_logp, segments.teacher_logp, one, chosen)
        moved = belief_change(evidence, self._prior(segments), segments.episode, segments.turn)
        weight = bounded_weight(moved, segments.base, chosen, segments.episode, bound="zscore_clip", alpha=self.width)
        return weight.to(segments.base.dtype)

    def _prior(self, segments: Segments) -> Tensor:
        if isinstance(self.prior, str):
            return success_rate(segments.success, segments.episode, segments.group)
        return torch.full_like(segments.base, self.prior, dtype=torch.float64)
