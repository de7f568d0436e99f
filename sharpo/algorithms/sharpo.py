"""SHARPO: each environment-facing action gets its own share of the advantage, by hindsight of a successful peer."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Literal

import torch
from torch import Tensor

from sharpo.algorithms.shaped import Shaped, one_of
from sharpo.batch import Batch, Scores
from sharpo.errors import ConfigError
from sharpo.functional.credit import (
    Bounding,
    GapNorm,
    Select,
    SignMode,
    bounded_weight,
    interpolate,
    length_balance,
    length_factor,
    mean_gap,
    mix,
    normalize_gap,
    normalizer,
    select_segments,
    sign_selected,
)
from sharpo.functional.credit_report import credit_diagnostics
from sharpo.functional.segment_ops import spread
from sharpo.ranges import Within, refuse_unread
from sharpo.segments import Segments

BalanceRule = Literal["length", "none"]
BalanceScope = Literal["trajectory", "group", "batch"]
Where = Literal["inside", "outside"]
Span = Literal["action", "action_with_tags", "think", "turn"]
ApplyTo = Literal["span", "turn"]


@dataclass(frozen=True, kw_only=True)
class Bound:
    """How the mean gap becomes a weight: see :func:`sharpo.functional.credit.bounded_weight`.

    Args:
        kind: the squashing: ``sigmoid2``, ``exp_clip``, ``tanh``, ``linear_clip``, ``zscore_clip``.
        tau: τ > 0; raise it when the weights are nearly flat.
        alpha: half-width of every kind but ``sigmoid2``, in (0, 1].
        alpha_clip: a further clip of the weight to 1 ± this, in (0, 1]; None = none.
        sign_mode: ``outcome``, ``unsigned``, ``positive_only``, ``negative_only``.
    """

    kind: Bounding = "sigmoid2"
    tau: float = 1.0
    alpha: float = 0.2
    alpha_clip: float | None = None
    sign_mode: SignMode = "outcome"

    def __post_init__(self) -> None:
        one_of(self.kind, Bounding, "bound.kind")
        one_of(self.sign_mode, SignMode, "bound.sign_mode")
        if not self.tau > 0:
            raise ConfigError(f"algorithm.bound.tau must be > 0, got {self.tau}")
        for name in ("alpha", "alpha_clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise ConfigError(f"algorithm.bound.{name} must be in (0, 1]: no weight is negative; got {value}")
        if self.kind == "sigmoid2":
            other = "another bound.kind (bound.alpha_clip clips sigmoid2)"
            refuse_unread("algorithm.bound", Bound, {"alpha": self.alpha}, other)
        if self.kind == "zscore_clip":
            other = "another bound.kind (a z-score has no scale)"
            refuse_unread("algorithm.bound", Bound, {"tau": self.tau}, other)


@dataclass(frozen=True, kw_only=True)
class Balance:
    """How lengths are balanced: see :func:`sharpo.functional.credit.length_balance`.

    Args:
        rule: ``length``, or ``none`` for no balancing at all.
        gamma: 0 = conserve the credit of the scope; 1 = the same budget for every segment whatever its length.
        normalize: divide by Z, so that the scope's total is unchanged.
        scope: ``trajectory``, ``group`` or ``batch`` (this rank's).
        where: ``inside`` balances the weight before mixing, ``outside`` the mixed multiplier after it.
        clip: bounds the length factor to [1/clip, clip]; None = 2 when gamma > 0; ``inf`` = never.
    """

    rule: BalanceRule = "length"
    gamma: float = 0.0
    normalize: bool = True
    scope: BalanceScope = "trajectory"
    where: Where = "inside"
    clip: Annotated[float, Within(1, inf)] | None = None

    def __post_init__(self) -> None:
        if self.rule == "step_mean_abs":
            raise ConfigError(
                "algorithm.balance.rule=step_mean_abs is refused: it rescales every segment to the same mean |A|, "
                "which erases multipliers that are constant inside a segment; use rule=length with gamma=0 or gamma=1"
            )
        one_of(self.rule, BalanceRule, "balance.rule")
        one_of(self.scope, BalanceScope, "balance.scope")
        one_of(self.where, Where, "balance.where")
        if self.gamma < 0:
            raise ConfigError(f"algorithm.balance.gamma must be >= 0, got {self.gamma}")
        if self.clip is not None and not self.clip >= 1:
            raise ConfigError(f"algorithm.balance.clip must be >= 1, got {self.clip}")
        if self.rule == "none":
            unread = {name: value for name, value in vars(self).items() if name != "rule"}
            refuse_unread("algorithm.balance", Balance, unread, "balance.rule=length")

    @property
    def factor_clip(self) -> float | None:
        """The clip in force: None, or a number >= 1."""
        return 2.0 if self.clip is None and self.gamma > 0 else self.clip


@dataclass(frozen=True, kw_only=True)
class Sharpo(Shaped):
    """A_eff = A · [(1 − λ) + λ v_k] on the tokens of segment k; GRPO everywhere else (arXiv 2610.00838).

    The teacher is the policy itself with a successful peer of the same group in its context. Episodes without such a
    peer, and segments that are not selected, keep the base advantage bit for bit; so does everything with λ = 0.

    Args:
        lam: mixing weight λ in [0, 1]; 0.2 and 0.05 are the published values.
        span: which tokens of a turn are the segment: ``action``, ``action_with_tags``, ``think``, ``turn``.
        apply_to: ``span`` reweights the segment's tokens, ``turn`` every sampled token of its turn.
        bound: how the gap becomes a weight.
        balance: how lengths are balanced.
        select: ``has_other_success``, ``failed_only`` or ``mixed_groups_only``.
        gap_norm: ``none``, ``group_mean_abs`` or ``traj_center``.
    """

    span: Span = "action"  # pyright: ignore[reportIncompatibleMethodOverride]
    apply_to: ApplyTo = "span"
    bound: Bound = field(default_factory=Bound)
    balance: Balance = field(default_factory=Balance)
    select: Select = "has_other_success"
    gap_norm: GapNorm = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.span, Span, "span")
        one_of(self.apply_to, ApplyTo, "apply_to")
        one_of(self.select, Select, "select")
        one_of(self.gap_norm, GapNorm, "gap_norm")

    def credit(self, segments: Segments, iteration: int) -> Tensor:
        """Return A_eff of each segment, (S,) float: the four boxes of the paper's Figure 2.

        Raises:
            ValueError: when a selected segment is not scored and λ is not 0.
        """
        lam = self.lambda_at(iteration)
        if lam == 0 or not bool(segments.selected.any()):
            return segments.base
        gap = self._mean_gap(segments)
        weight = self._bounded_weight(segments, gap)
        if self.balance.where == "inside":
            return interpolate(segments.base, self._length_balance(segments, weight), lam)
        return segments.base * self._length_balance(segments, mix(weight, lam))

    def token_advantages(
        self, batch: Batch, scores: Scores, segments: Segments, credit: Tensor, iteration: int
    ) -> Tensor:
        """Spread over tokens: inside the span, or over the whole turn with ``apply_to="turn"``, (B, T) float."""
        if self.apply_to == "span":
            return super().token_advantages(batch, scores, segments, credit, iteration)
        return spread(credit, batch.segment_index, batch.action_mask & (batch.segment_index >= 0))

    def report(self, segments: Segments, credit: Tensor) -> dict[str, Tensor]:
        """Return what the credit looked like: see :func:`sharpo.functional.credit_report.credit_diagnostics`."""
        if self.lam == 0 or not bool(segments.selected.any()):
            return credit_diagnostics(segments, credit)
        chosen, balance = self._selected(segments), self.balance
        weight = self._bounded_weight(segments, self._mean_gap(segments))
        scope = self._scope(segments)
        factor = length_factor(segments.length, chosen, scope, gamma=balance.gamma, clip=balance.factor_clip)
        z = normalizer(weight * factor, segments.length, chosen, scope)[scope]
        return credit_diagnostics(segments, credit, selected=chosen, weight=weight, normalizer=z)

    def _selected(self, segments: Segments) -> Tensor:
        chosen = select_segments(segments.selected, segments.success, segments.group, self.select)
        return sign_selected(chosen, segments.base, self.bound.sign_mode)

    def _scope(self, segments: Segments) -> Tensor:
        scopes = {"trajectory": segments.episode, "group": segments.group, "batch": torch.zeros_like(segments.group)}
        return scopes[self.balance.scope]

    def _mean_gap(self, segments: Segments) -> Tensor:
        if segments.student_logp is None or segments.teacher_logp is None:
            raise ValueError("Segments has no student_logp or teacher_logp: score the table before SHARPO's credit")
        chosen = self._selected(segments)
        gap = mean_gap(segments.student_logp, segments.teacher_logp, segments.length, chosen)
        return normalize_gap(gap, segments.length, chosen, segments.group, segments.episode, self.gap_norm)

    def _bounded_weight(self, segments: Segments, gap: Tensor) -> Tensor:
        bound = self.bound
        return bounded_weight(
            gap,
            segments.base,
            self._selected(segments),
            segments.episode,
            bound=bound.kind,
            tau=bound.tau,
            alpha=bound.alpha,
            alpha_clip=bound.alpha_clip,
            sign_mode=bound.sign_mode,
        )

    def _length_balance(self, segments: Segments, weight: Tensor) -> Tensor:
        balance = self.balance
        if balance.rule == "none":
            return weight
        return length_balance(
            weight,
            segments.length,
            self._selected(segments),
            self._scope(segments),
            gamma=balance.gamma,
            normalize=balance.normalize,
            clip=balance.factor_clip,
        )
