"""Muon for CPUs: PyTorch's own, with its orthogonalisation in float32 and batched over matrices of one shape."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def orthogonalise(matrices: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float = 1e-7) -> Tensor:
    """Return the approximate zeroth power of each matrix: X ← aX + (bXXᵀ + c(XXᵀ)²)X, ``steps`` times.

    Source: the Newton-Schulz iteration of Muon (Jordan et al., 2024); PyTorch runs it in bfloat16, which a CPU
    without bfloat16 units emulates, slower than the whole backward pass of a small model.

    Args:
        matrices: (N, rows, columns) float32.
        coefficients: a, b, c.
        steps: iterations.
        eps: least norm to divide by.

    Example:
        >>> x = orthogonalise(3.0 * torch.eye(2)[None], (3.4445, -4.775, 2.0315), 5)
        >>> bool(((torch.linalg.svdvals(x) - 1).abs() < 0.4).all())
        True
    """
    a, b, c = coefficients
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Float32Muon(torch.optim.Muon):
    """:class:`torch.optim.Muon` with its default learning-rate rule η·√max(1, rows/columns), for plain CPU tensors.

    The result differs from PyTorch's by the rounding of bfloat16 only.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run the closure with gradients, then step; return the closure's loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params: list[Tensor] = []
            gradients: list[Tensor] = []
            momenta: list[Tensor] = []
            self._init_group(group, params, gradients, momenta)
            by_shape: dict[torch.Size, list[int]] = defaultdict(list)
            for index, parameter in enumerate(params):
                by_shape[parameter.shape].append(index)
            for shape, members in by_shape.items():
                for i in members:
                    momenta[i].lerp_(gradients[i], 1 - group["momentum"])
                look_ahead = torch.stack([gradients[i].lerp(momenta[i], group["momentum"]) for i in members]).float()
                update = orthogonalise(look_ahead, group["ns_coefficients"], group["ns_steps"], group["eps"])
                rate = group["lr"] * math.sqrt(max(1.0, shape[0] / shape[1]))
                for n, i in enumerate(members):
                    params[i].mul_(1 - group["lr"] * group["weight_decay"]).add_(update[n], alpha=-rate)
        return loss
