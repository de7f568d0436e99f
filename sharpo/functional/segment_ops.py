"""Sums, means and spreads by index: tokens to segments, segments to episodes, and back."""

from __future__ import annotations

import torch
from torch import Tensor

from sharpo.functional.masked import masked_fill


def index_size(index: Tensor) -> int:
    """Return the number of slots an index needs: its largest entry + 1, 0 when it is empty."""
    return int(index.max()) + 1 if index.numel() else 0


def segment_sum(x: Tensor, index: Tensor, size: int, mask: Tensor | None = None) -> Tensor:
    """Σ x over the entries of each slot: out[s] = Σ_{j: index[j]=s, mask[j]} x[j].

    Args:
        x: float, any shape, for example (S,) or (B, T).
        index: slot of each entry, the same shape, int; may be negative where the mask is False.
        size: number of slots.
        mask: entries that count, the same shape, bool; None = all.

    Returns:
        (size,) float; 0 for an empty slot.

    Example:
        >>> segment_sum(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1, 0, 1]), 2).tolist()
        [2.0, 5.0]
    """
    if x.shape != index.shape:
        raise ValueError(f"index: expected shape {tuple(x.shape)}, got {tuple(index.shape)}")
    if mask is not None:
        x, index = masked_fill(x, mask), torch.where(mask, index, torch.zeros_like(index))
        if size == 0:
            return x.new_zeros(0)
    return x.new_zeros(size).index_add(0, index.flatten(), x.flatten())


def segment_count(index: Tensor, size: int, mask: Tensor | None = None) -> Tensor:
    """Return how many entries each slot has, (size,) float32."""
    return segment_sum(torch.ones(index.shape, dtype=torch.float32, device=index.device), index, size, mask)


def segment_mean(x: Tensor, index: Tensor, size: int, mask: Tensor | None = None) -> Tensor:
    """Σ x / Σ 1 over the entries of each slot; 0 for an empty slot, (size,) float."""
    return segment_sum(x, index, size, mask) / segment_count(index, size, mask).to(x.dtype).clamp(min=1)


def segment_any(flag: Tensor, index: Tensor, size: int) -> Tensor:
    """Return whether any entry of each slot is True, (size,) bool."""
    return segment_count(index, size, flag) > 0


def segment_extent(x: Tensor, index: Tensor, size: int, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the smallest and largest entry of each slot, (size,) each; +inf and −inf for an empty slot."""
    mask = torch.ones_like(index, dtype=torch.bool) if mask is None else mask
    slots = torch.where(mask, index, torch.zeros_like(index)).long()
    low = x.new_full((size,), float("inf")).scatter_reduce(0, slots, masked_fill(x, mask, float("inf")), "amin")
    high = x.new_full((size,), float("-inf")).scatter_reduce(0, slots, masked_fill(x, mask, float("-inf")), "amax")
    return low, high


def spread(values: Tensor, index: Tensor, mask: Tensor) -> Tensor:
    """Return ``values[index]`` where the mask is True and 0 elsewhere, in the shape of ``index``.

    Args:
        values: one for each slot, (S,).
        index: slot of each token, (B, T) int; may be negative where the mask is False.
        mask: tokens that receive a value, (B, T) bool.

    Example:
        >>> spread(torch.tensor([5.0, 7.0]), torch.tensor([[-1, 1, 0]]), torch.tensor([[False, True, True]])).tolist()
        [[0.0, 7.0, 5.0]]
    """
    if values.numel() == 0:
        return torch.zeros(index.shape, dtype=values.dtype, device=values.device)
    return masked_fill(values[torch.where(mask, index, torch.zeros_like(index))], mask)
