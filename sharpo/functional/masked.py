"""Reductions over the True entries of a mask; what is masked out, even NaN or infinity, changes nothing."""

from __future__ import annotations

import torch
from torch import Tensor


def _check(x: Tensor, mask: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise ValueError(f"mask: expected dtype bool, got {mask.dtype}")
    if x.shape != mask.shape:
        raise ValueError(f"mask: expected shape {tuple(x.shape)}, got {tuple(mask.shape)}")


def masked_fill(x: Tensor, mask: Tensor, value: float = 0.0) -> Tensor:
    """Return ``x`` where the mask is True and ``value`` elsewhere; the replaced entries get gradient 0.

    Args:
        x: any shape, float.
        mask: the same shape, bool; True = counts.
        value: what stands in the places that do not count.

    Raises:
        ValueError: when the shapes differ or the mask is not bool.
    """
    _check(x, mask)
    return torch.where(mask, x, torch.full((), value, dtype=x.dtype, device=x.device))


def masked_sum(x: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """Σ m·x over ``dim``, or over everything.

    Example:
        >>> masked_sum(torch.tensor([1.0, float("nan")]), torch.tensor([True, False])).item()
        1.0
    """
    kept = masked_fill(x, mask)
    return kept.sum() if dim is None else kept.sum(dim)


def masked_count(mask: Tensor, dim: int | None = None) -> Tensor:
    """Σ m over ``dim``, or over everything, int."""
    return mask.sum() if dim is None else mask.sum(dim)


def masked_mean(x: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """Σ m·x / Σ m; 0 where nothing counts.

    Example:
        >>> masked_mean(torch.tensor([1.0, 3.0, float("inf")]), torch.tensor([True, True, False])).item()
        2.0
    """
    return masked_sum(x, mask, dim) / masked_count(mask, dim).clamp(min=1)


def masked_var(x: Tensor, mask: Tensor, dim: int | None = None, *, correction: int = 1) -> Tensor:
    """Σ m·(x − x̄)² / (Σ m − correction); 0 where the divisor would not be positive.

    Example:
        >>> masked_var(torch.tensor([1.0, 3.0, 9.0]), torch.tensor([True, True, False])).item()
        2.0
    """
    mean = masked_mean(x, mask, dim)
    centred = masked_fill(x, mask) - (mean if dim is None else mean.unsqueeze(dim))
    divisor = masked_count(mask, dim) - correction
    total = masked_sum(centred.square(), mask, dim) / divisor.clamp(min=1)
    return torch.where(divisor > 0, total, torch.zeros_like(total))


def masked_min(x: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """Smallest x that counts; +inf where nothing counts."""
    return -masked_max(-x, mask, dim)


def masked_max(x: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """Largest x that counts; −inf where nothing counts."""
    kept = masked_fill(x, mask, float("-inf"))
    if dim is not None:
        return kept.amax(dim)
    return kept.amax() if kept.numel() else kept.new_full((), float("-inf"))
