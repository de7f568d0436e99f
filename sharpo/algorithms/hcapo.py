"""HCAPO: beside the episode's advantage, how likely an action looks once the outcome is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from sharpo.algorithms.baseline import Baseline
from sharpo.algorithms.grpo import Grpo
from sharpo.algorithms.shaped import one_of
from sharpo.batch import Batch, Scores
from sharpo.errors import ConfigError
from sharpo.functional.anchors import relative_to_slot
from sharpo.functional.credit_report import credit_diagnostics
from sharpo.functional.hindsight import hindsight_likelihood, hindsight_ratio, hindsight_value
from sharpo.functional.segment_ops import index_size, segment_any, spread
from sharpo.segments import Segments

Span = Literal["turn", "action", "action_with_tags", "think"]
MicroScope = Literal["group", "turn"]


@dataclass(frozen=True, kw_only=True)
class Hcapo(Grpo):
    """A_k = A_i + ω·(Q_k − μ_H)/(σ_H + ε), Q_k = ρ_k γ^{T−k} R_i, on every token of the turn (arXiv 2603.08754).

    ρ_k = clip(π_h(a_k)/mean π_h, low, high), π_h = exp(Σ log π/(T·|a_k|)) of the policy that is told the outcome. A
    turn that the teacher did not read (no action, not trained) has ρ = 1; an episode of which it read nothing keeps
    A_i, bit for bit, and stays out of μ_H and σ_H.

    Args:
        baseline: of A_i, over episodes; its ``norm_by_std`` and ``correction`` hold for the second part too.
        span: the tokens a_k: ``turn``, ``action``, ``action_with_tags``, ``think``.
        temperature: T > 0 of π_h; large = flat.
        ratio_low: smallest ρ, in [0, 1].
        ratio_high: largest ρ, >= 1.
        gamma: γ in (0, 1].
        omega: ω >= 0; 0 is GRPO and runs no teacher.
        smoothing: Q_k becomes ½Q_k + ½Q_{k+1}.
        no_harm: in successful episodes a negative second part counts as 0.
        micro_scope: μ_H and σ_H over the ``group``, or over its segments of the same ``turn``.
    """

    baseline: Baseline = field(default_factory=lambda: Baseline(scope="trajectories"))
    span: Span = "turn"  # pyright: ignore[reportIncompatibleMethodOverride]
    temperature: float = 5.0
    ratio_low: float = 0.8
    ratio_high: float = 1.2
    gamma: float = 0.95
    omega: float = 1.0
    smoothing: bool = False
    no_harm: bool = True
    micro_scope: MicroScope = "group"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.span, Span, "span")
        one_of(self.micro_scope, MicroScope, "micro_scope")
        if not self.temperature > 0:
            raise ConfigError(f"algorithm.temperature must be > 0, got {self.temperature}")
        if not 0 <= self.ratio_low <= 1 <= self.ratio_high:
            raise ConfigError(
                f"algorithm.ratio_low and ratio_high must enclose 1, as in 0.8 and 1.2; got {self.ratio_low} and "
                f"{self.ratio_high}"
            )
        if not 0 < self.gamma <= 1:
            raise ConfigError(f"algorithm.gamma must be in (0, 1], got {self.gamma}")
        if not self.omega >= 0:
            raise ConfigError(f"algorithm.omega must be >= 0, got {self.omega}")

    @property
    def needs_teacher(self) -> bool:
        """True unless ω = 0."""
        return self.omega > 0

    @property
    def teaches_uncredited(self) -> bool:
        """True: a group that always succeeds has A_i = 0 and still a second part."""
        return True

    def teacher_reads(self, segments: Segments) -> Tensor:
        """Return the segments whose rows the teacher scores, (S,) bool: Q is 0 where all returns of a group are."""
        earns = segment_any(segments.episode_return != 0, segments.group, index_size(segments.group))
        return super().teacher_reads(segments) & earns[segments.group]

    def credit(self, segments: Segments, iteration: int) -> Tensor:
        """Return A_k of each segment, (S,) float.

        Raises:
            ValueError: when a selected segment is not scored and ω is not 0.
        """
        del iteration
        if self.omega == 0 or not bool(segments.selected.any()):
            return segments.base
        value = hindsight_value(
            self._ratio(segments),
            segments.episode,
            segments.turn,
            segments.episode_return,
            gamma=self.gamma,
            smoothing=self.smoothing,
        )
        slot = segments.group
        if self.micro_scope == "turn":
            slot = slot * (segments.turn.max() + 1) + segments.turn
        read = segment_any(segments.selected, segments.episode, index_size(segments.episode))[segments.episode]
        micro = relative_to_slot(
            value, slot, read, norm_by_std=self.baseline.norm_by_std, correction=self.baseline.correction
        )
        if self.no_harm:
            micro = torch.where(segments.success, micro.clamp(min=0), micro)
        return (segments.base + self.omega * micro).to(segments.base.dtype)  # micro is 0 where not read

    def token_advantages(
        self, batch: Batch, scores: Scores, segments: Segments, credit: Tensor, iteration: int
    ) -> Tensor:
        """Give every sampled token of a turn the turn's advantage, whatever the span, (B, T) float."""
        del scores, segments, iteration
        return spread(credit, batch.segment_index, batch.action_mask & (batch.segment_index >= 0))

    def report(self, segments: Segments, credit: Tensor) -> dict[str, Tensor]:
        """Return what the credit looked like; ``weight`` is ρ."""
        if self.omega == 0 or not bool(segments.selected.any()):
            return credit_diagnostics(segments, credit)
        return credit_diagnostics(segments, credit, weight=self._ratio(segments))

    def _ratio(self, segments: Segments) -> Tensor:
        if segments.teacher_logp is None:
            raise ValueError("Segments has no teacher_logp: score the table before HCAPO's credit")
        likelihood = hindsight_likelihood(segments.teacher_logp, segments.length, segments.selected, self.temperature)
        return hindsight_ratio(
            likelihood, segments.episode, segments.selected, low=self.ratio_low, high=self.ratio_high
        )
