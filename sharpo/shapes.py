"""Loud, named checks of shape and dtype."""

from __future__ import annotations

import torch
from torch import Tensor

_KINDS = {
    "float": lambda dtype: dtype.is_floating_point,
    "int": lambda dtype: dtype in (torch.int64, torch.int32),
    "bool": lambda dtype: dtype == torch.bool,
}


def expect(x: Tensor, dims: str, kind: str | None = None, *, name: str = "tensor", **sizes: int) -> dict[str, int]:
    """Check ``x`` against named dimensions and return the sizes learnt so far.

    Args:
        x: the tensor.
        dims: one name for each dimension, for example ``"B T"``.
        kind: ``float``, ``int`` or ``bool``; None accepts any dtype.
        name: how to call the tensor in the message.
        **sizes: sizes already known by name.

    Raises:
        ValueError: when rank, a size or the dtype differs; the message names the tensor.

    Example:
        >>> expect(torch.zeros(2, 3), "B T", "float", B=2)
        {'B': 2, 'T': 3}
    """
    names = dims.split()
    if x.ndim != len(names):
        raise ValueError(f"{name}: expected dimensions [{dims}], got shape {tuple(x.shape)}")
    known = dict(sizes)
    for dim, size in zip(names, x.shape, strict=True):
        if known.setdefault(dim, size) != size:
            raise ValueError(f"{name}: dimension {dim} should be {known[dim]}, got shape {tuple(x.shape)}")
    if kind is not None and not _KINDS[kind](x.dtype):
        raise ValueError(f"{name}: expected dtype {kind}, got {x.dtype}")
    return known
