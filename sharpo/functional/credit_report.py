"""What the credit of an iteration looked like, as scalars to log."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from sharpo.functional.credit import mean_gap
from sharpo.functional.masked import masked_fill, masked_max, masked_mean, masked_min, masked_var
from sharpo.functional.segment_ops import index_size, segment_mean

EXACT = 1e-5
"""Relative change up to which a multiplier counts as exactly 1: the rounding of a mean over tokens."""


class CreditTable(Protocol):
    """The columns that are read; ``sharpo.segments.Segments`` has them."""

    @property
    def episode(self) -> Tensor:
        """Episode of the segment, (S,) int."""
        ...

    @property
    def length(self) -> Tensor:
        """Tokens of the span, (S,) int."""
        ...

    @property
    def success(self) -> Tensor:
        """The episode succeeded, (S,) bool."""
        ...

    @property
    def hinted(self) -> Tensor:
        """The episode has a hint, (S,) bool."""
        ...

    @property
    def base(self) -> Tensor:
        """Base advantage, (S,) float."""
        ...

    @property
    def selected(self) -> Tensor:
        """May be reweighted, (S,) bool."""
        ...

    @property
    def student_logp(self) -> Tensor | None:
        """Sum over the span under the student, (S,) float, nats; None = not scored."""
        ...

    @property
    def teacher_logp(self) -> Tensor | None:
        """Sum over the span under the teacher, (S,) float, nats; None = not scored."""
        ...


def _or_nan(value: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask.any(), value, torch.full_like(value, float("nan")))


def _quantile(x: Tensor, mask: Tensor, q: float) -> Tensor:
    return torch.quantile(x[mask].float(), q) if bool(mask.any()) else torch.full((), float("nan"), device=x.device)


def _spread(name: str, x: Tensor, mask: Tensor) -> dict[str, Tensor]:
    return {
        f"{name}_mean": _or_nan(masked_mean(x, mask), mask),
        f"{name}_std": _or_nan(masked_var(x, mask, correction=0).sqrt(), mask),
        f"{name}_p05": _quantile(x, mask, 0.05),
        f"{name}_p95": _quantile(x, mask, 0.95),
    }


def correlation(x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Pearson's r of x and y, (N,) float, over the True entries of a mask; 0 where one of them does not vary.

    Example:
        >>> correlation(*(torch.tensor(x) for x in ([1.0, 2.0, 9.0], [4.0, 2.0, 9.0], [True, True, False]))).item()
        -1.0
    """
    x = torch.where(mask, x - masked_mean(x, mask), torch.zeros_like(x))
    y = torch.where(mask, y - masked_mean(y, mask), torch.zeros_like(y))
    scale = (x.square().sum() * y.square().sum()).sqrt()
    return torch.where(scale > 0, (x * y).sum() / scale, torch.zeros_like(scale))


def segment_gaps(segments: CreditTable) -> tuple[Tensor, Tensor]:
    """Return the mean gap ḡ_k = (t_k − s_k) / n_k, (S,) float, nats per token, and where the teacher scored, (S,) bool.

    0 where it did not.
    """
    if segments.student_logp is None or segments.teacher_logp is None:
        return torch.zeros_like(segments.base), torch.zeros_like(segments.selected)
    gap = mean_gap(segments.student_logp, segments.teacher_logp, segments.length, segments.selected)
    return gap, segments.selected


def segment_multipliers(segments: CreditTable, credit: Tensor, selected: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return A_eff/A, (S,) float, and where it means something, (S,) bool: A ≠ 0, and selected or changed; 1 elsewhere.

    Args:
        segments: the table.
        credit: effective advantages, (S,) float.
        selected: segments the method reweighted; None = ``segments.selected``.
    """
    base = segments.base.detach()
    known = base != 0
    ratio = credit / torch.where(known, base, torch.ones_like(base))
    chosen = segments.selected if selected is None else selected
    known = known & (chosen | ((ratio - 1).abs() > EXACT))
    return masked_fill(ratio, known, 1.0), known


def step_credit(segments: CreditTable, credit: Tensor) -> tuple[Tensor, Tensor]:
    """Return A_eff,k − mean of A_eff over its trajectory, (S,) float, and which segments count (n_k ≥ 1), (S,) bool.

    What a method gives to a step beside its trajectory: 0 for GRPO, whatever the method does it with (a multiplier, or
    base advantages of its own as GiGPO).
    """
    counts = segments.length > 0
    mean = segment_mean(credit, segments.episode, index_size(segments.episode), counts)
    return masked_fill(credit - mean[segments.episode], counts), counts


def credit_diagnostics(
    segments: CreditTable,
    credit: Tensor,
    *,
    selected: Tensor | None = None,
    weight: Tensor | None = None,
    normalizer: Tensor | None = None,
) -> dict[str, Tensor]:
    """Summarise the credit of one rank's table; the keys are always the same, NaN = no data.

    Args:
        segments: the scored table, S rows.
        credit: effective advantages, (S,) float.
        selected: segments the method reweighted, (S,) bool; None = ``segments.selected``.
        weight: bounded weights w_k, (S,) float, when the method has them.
        normalizer: Z of each segment's scope, (S,) float, when the method has one.

    Returns:
        ``peer_share`` of segments with a hint, ``selected_share``; mean, std, 5 % and 95 % of the mean gap ḡ for
        segments of successful and of failed episodes (nats per token), and ``gap_length_correlation`` (Pearson) of ḡ
        with the tokens: what the text itself brings, before any weight; the same where A > 0 (``_positive``) and where
        A < 0 (``_negative``); the same spread of w; Z mean, min and max;
        mean, std, min and max of the multiplier A_eff/A; ``moved_share``: of these segments, those with
        |A_eff − A| > 1 % of |A|; ``length_mean``; ``multiplier_length_correlation`` (Pearson), and the same where A > 0
        (``_positive``) and where A < 0 (``_negative``): a bias by length that turns with the sign of A cancels in the
        first one;
        ``step_share``: share of the variance of A_eff that lies inside trajectories; ``step_length_correlation`` of
        A_eff minus its trajectory's mean with the length.
    """
    chosen = segments.selected if selected is None else selected
    base, tokens = segments.base.detach(), segments.length.to(credit.dtype)
    nan = torch.full_like(base, float("nan"))
    every = torch.ones_like(chosen)
    signs = {"": every, "_positive": base > 0, "_negative": base < 0}
    report = {
        "peer_share": _or_nan(masked_mean(segments.hinted.float(), every), every),
        "selected_share": _or_nan(masked_mean(chosen.float(), every), every),
    }
    gap, scored = segment_gaps(segments)
    report |= _spread("gap_success", gap, scored & segments.success)
    report |= _spread("gap_failure", gap, scored & ~segments.success)
    for name, sign in signs.items():
        where = scored & sign
        report[f"gap_length_correlation{name}"] = _or_nan(correlation(gap, tokens, where), where)
    report |= _spread("weight", nan if weight is None else weight, chosen if weight is not None else ~every)
    z, z_mask = (nan, ~every) if normalizer is None else (normalizer, chosen)
    report |= {
        "z_mean": _or_nan(masked_mean(z, z_mask), z_mask),
        "z_min": _or_nan(masked_min(z, z_mask), z_mask),
        "z_max": _or_nan(masked_max(z, z_mask), z_mask),
    }
    multiplier, moved = segment_multipliers(segments, credit, selected)
    report |= {
        "multiplier_mean": _or_nan(masked_mean(multiplier, moved), moved),
        "multiplier_std": _or_nan(masked_var(multiplier, moved, correction=0).sqrt(), moved),
        "multiplier_min": _or_nan(masked_min(multiplier, moved), moved),
        "multiplier_max": _or_nan(masked_max(multiplier, moved), moved),
        "moved_share": _or_nan(masked_mean(((multiplier - 1).abs() > 0.01).float(), moved), moved),
        "length_mean": _or_nan(masked_mean(tokens, chosen), chosen),
    }
    for name, sign in signs.items():
        where = moved & sign
        report[f"multiplier_length_correlation{name}"] = _or_nan(correlation(multiplier, tokens, where), where)
    step, counts = step_credit(segments, credit)
    total = masked_var(credit, counts, correction=0)
    inside = masked_mean(step.square(), counts) / torch.where(total > 0, total, torch.ones_like(total))
    report |= {
        "step_share": _or_nan(inside, counts),
        "step_length_correlation": _or_nan(correlation(step, tokens, counts), counts),
    }
    return report


def control_summary(own: Tensor, other: Tensor, success: Tensor) -> dict[str, Tensor]:
    """Compare the gaps of N segments under their own hint with those under the hint of another task; NaN without any.

    Args:
        own: ḡ with the segment's own hint, (N,) float, nats per token.
        other: ḡ with the other task's hint, (N,) float, nats per token.
        success: the segment's episode succeeded, (N,) bool.

    Returns:
        Mean and std of both, for successful and for failed episodes (``own_success_mean``, ``other_success_mean``, …);
        ``difference``: mean of own − other; ``above_share``: segments whose own gap is the larger, ties by half (0.5 =
        the task of the hint does not matter); ``correlation`` of the two (near 1 = the gap comes from a longer prompt).
    """
    report: dict[str, Tensor] = {}
    for name, gap in (("own", own), ("other", other)):
        for outcome, where in (("success", success), ("failure", ~success)):
            spread = _spread(f"{name}_{outcome}", gap, where)
            report |= {key: spread[key] for key in (f"{name}_{outcome}_mean", f"{name}_{outcome}_std")}
    every, difference = torch.ones_like(success), own - other
    above = (difference > 0).float() + 0.5 * (difference == 0).float()
    return report | {
        "difference": _or_nan(masked_mean(difference, every), every),
        "above_share": _or_nan(masked_mean(above, every), every),
        "correlation": _or_nan(correlation(own, other, every), every),
    }


def multiplier_summary(ratio: Tensor) -> dict[str, Tensor]:
    """Summarise A_eff/A over tokens, (N,) float: changed by more than 1 %, least, most; NaN without tokens."""
    some = torch.ones_like(ratio, dtype=torch.bool)
    nan = torch.full((), float("nan"))
    if not ratio.numel():
        return {"token_moved_share": nan, "token_multiplier_min": nan, "token_multiplier_max": nan}
    return {
        "token_moved_share": masked_mean(((ratio - 1).abs() > 0.01).float(), some),
        "token_multiplier_min": ratio.min(),
        "token_multiplier_max": ratio.max(),
    }
