"""What the credit of an iteration looked like, as scalars to log."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from sharpo.functional.credit import mean_gap
from sharpo.functional.masked import masked_max, masked_mean, masked_min, masked_var


class CreditTable(Protocol):
    """The columns that are read; ``sharpo.segments.Segments`` has them."""

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


def _correlation(x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    x = torch.where(mask, x - masked_mean(x, mask), torch.zeros_like(x))
    y = torch.where(mask, y - masked_mean(y, mask), torch.zeros_like(y))
    scale = (x.square().sum() * y.square().sum()).sqrt()
    return torch.where(scale > 0, (x * y).sum() / scale, torch.zeros_like(scale))


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
        segments of successful and of failed episodes (nats per token); the same of w; Z mean, min and max; mean, std,
        min and max of the multiplier A_eff/A; ``moved_share``: selected segments with |A_eff − A| > 1 % of |A|;
        ``length_mean``; ``multiplier_length_correlation`` (Pearson).
    """
    chosen = segments.selected if selected is None else selected
    base, tokens = segments.base.detach(), segments.length.to(credit.dtype)
    nan = torch.full_like(base, float("nan"))
    every = torch.ones_like(chosen)
    report = {
        "peer_share": _or_nan(masked_mean(segments.hinted.float(), every), every),
        "selected_share": _or_nan(masked_mean(chosen.float(), every), every),
    }
    if segments.student_logp is None or segments.teacher_logp is None:
        gap, scored = nan, torch.zeros_like(chosen)
    else:
        scored = segments.selected
        gap = mean_gap(segments.student_logp, segments.teacher_logp, segments.length, scored)
    report |= _spread("gap_success", gap, scored & segments.success)
    report |= _spread("gap_failure", gap, scored & ~segments.success)
    report |= _spread("weight", nan if weight is None else weight, chosen if weight is not None else ~every)
    z, z_mask = (nan, ~every) if normalizer is None else (normalizer, chosen)
    report |= {
        "z_mean": _or_nan(masked_mean(z, z_mask), z_mask),
        "z_min": _or_nan(masked_min(z, z_mask), z_mask),
        "z_max": _or_nan(masked_max(z, z_mask), z_mask),
    }
    moved = chosen & (base != 0)
    multiplier = torch.where(moved, credit / torch.where(moved, base, torch.ones_like(base)), torch.ones_like(base))
    report |= {
        "multiplier_mean": _or_nan(masked_mean(multiplier, moved), moved),
        "multiplier_std": _or_nan(masked_var(multiplier, moved, correction=0).sqrt(), moved),
        "multiplier_min": _or_nan(masked_min(multiplier, moved), moved),
        "multiplier_max": _or_nan(masked_max(multiplier, moved), moved),
        "moved_share": _or_nan(masked_mean(((multiplier - 1).abs() > 0.01).float(), moved), moved),
        "length_mean": _or_nan(masked_mean(tokens, chosen), chosen),
        "multiplier_length_correlation": _or_nan(_correlation(multiplier, tokens, moved), moved),
    }
    return report


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
