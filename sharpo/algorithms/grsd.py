"""GRSD: a turn's hindsight counts relative to that of its group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from sharpo.algorithms.shaped import Shaped, one_of
from sharpo.errors import ConfigError
from sharpo.functional.credit import Select, mean_gap, select_segments
from sharpo.functional.credit_report import credit_diagnostics
from sharpo.functional.turn_credit import floored_multiplier, relative_evidence
from sharpo.segments import Segments

Span = Literal["action", "action_with_tags", "think", "turn"]


@dataclass(frozen=True, kw_only=True)
class Grsd(Shaped):
    """A_eff = A · max(floor, 1 + λ ĝ_k), ĝ = clip(e/(mean_g|e| + 1e-6), ±c), e = exp(sign(A)·ḡ) − 1 (arXiv 2607.28076).

    Args:
        lam: λ in [0, 1].
        span: which tokens of a turn are scored and reweighted: ``turn``, ``action``, ``action_with_tags``, ``think``.
        dead_zone: η >= 0: evidence up to this multiple of the group's mean counts as none.
        clip: c > 0 bounds the relative evidence.
        floor: in (0, 1]: the least multiplier.
        select: ``mixed_groups_only``, ``has_other_success`` or ``failed_only``.
    """

    lam: float = 0.5
    span: Span = "turn"  # pyright: ignore[reportIncompatibleMethodOverride]
    dead_zone: float = 0.0
    clip: float = 0.2
    floor: float = 0.1
    select: Select = "mixed_groups_only"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.span, Span, "span")
        one_of(self.select, Select, "select")
        if not self.dead_zone >= 0:
            raise ConfigError(f"algorithm.dead_zone must be >= 0, got {self.dead_zone}")
        if not self.clip > 0:
            raise ConfigError(f"algorithm.clip must be > 0, got {self.clip}")
        if not 0 < self.floor <= 1:
            raise ConfigError(f"algorithm.floor must be in (0, 1]: at 0 the sign is lost; got {self.floor}")

    def credit(self, segments: Segments, iteration: int) -> Tensor:
        """Return A_eff of each turn, (S,) float.

        Raises:
            ValueError: when a selected turn is not scored and λ is not 0.
        """
        lam = self.lambda_at(iteration)
        chosen = self._selected(segments)
        if lam == 0 or not bool(chosen.any()):
            return segments.base
        if segments.student_logp is None or segments.teacher_logp is None:
            raise ValueError("Segments has no student_logp or teacher_logp: score the table before GRSD's credit")
        gap = mean_gap(segments.student_logp, segments.teacher_logp, segments.length, chosen)
        evidence = relative_evidence(
            gap, segments.base, chosen, segments.group, dead_zone=self.dead_zone, clip=self.clip
        )
        return segments.base * floored_multiplier(evidence, lam, self.floor)

    def report(self, segments: Segments, credit: Tensor) -> dict[str, Tensor]:
        """Return what the credit of the selected turns looked like."""
        return credit_diagnostics(segments, credit, selected=self._selected(segments))

    def _selected(self, segments: Segments) -> Tensor:
        return select_segments(segments.selected, segments.success, segments.group, self.select)
