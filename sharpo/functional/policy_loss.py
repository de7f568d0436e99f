"""Per-token terms of the policy objective: clipped surrogate with dual clip, and KL estimators."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

KlEstimator = Literal["k1", "k2", "k3"]
LOG_RATIO_LIMIT = 20.0
KL_LIMIT = 10.0


class Surrogate(NamedTuple):
    """Per-token loss and what happened to it; every field has the shape of ``logp``."""

    loss: Tensor
    ratio: Tensor
    """π/π_old, detached."""
    clipped: Tensor
    """The clip of the ratio decides the loss, bool."""
    dual_clipped: Tensor
    """The bound c·|A| decides the loss, bool."""


def clipped_surrogate(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = 3.0,
) -> Surrogate:
    """L = max(−A r, −A clip(r, 1−ε_lo, 1+ε_hi)), and min(L, −c A) where A < 0; r = exp(log π − log π_old).

    PPO (arXiv 1707.06347, eq. 7); dual clip (arXiv 1912.09729, eq. 5); asymmetric clip (DAPO, arXiv 2503.14476).

    Args:
        logp: current log π, nats, any shape, with gradient.
        old_logp: log π_old, nats, the same shape; detached here.
        advantages: A, the same shape; detached here.
        clip_low: ε_lo.
        clip_high: ε_hi.
        dual_clip: c > 1; None = no dual clip.

    Example:
        >>> out = clipped_surrogate(torch.tensor([1.5]).log(), torch.zeros(1), torch.ones(1))
        >>> round(out.loss.item(), 4), out.clipped.item()
        (-1.2, True)
    """
    advantages = advantages.detach()
    log_ratio = (logp - old_logp.detach()).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    ratio = torch.exp(log_ratio)
    plain = -advantages * ratio
    bounded = -advantages * ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    loss = torch.maximum(plain, bounded)
    clipped = (bounded > plain).detach()
    dual_clipped = torch.zeros_like(clipped)
    if dual_clip is not None:
        ceiling = -dual_clip * advantages
        dual_clipped = ((advantages < 0) & (loss > ceiling)).detach()
        loss = torch.where(dual_clipped, ceiling, loss)
    return Surrogate(loss, ratio.detach(), clipped, dual_clipped)


def kl_estimate(logp: Tensor, reference_logp: Tensor, estimator: KlEstimator = "k3") -> Tensor:
    """Per-token estimate of KL(π ‖ π_ref) on tokens drawn from π, with d = log π_ref − log π clamped to ±10.

    k1 = −d · k2 = d²/2 · k3 = eᵈ − d − 1. As *values* k1 and k3 are unbiased and k2 is not. As *losses*, where
    only log π carries gradient, the expectations are: ∇k1 → 0 (no pull at all), ∇k2 → ∇KL(π ‖ π_ref) (the right
    gradient), ∇k3 → ∇KL(π_ref ‖ π) (the other direction; near the right one only while π ≈ π_ref). The field's code
    uses k3, so it is the default. Source: Schulman, "Approximating KL divergence" (2020), and exact enumeration in
    the tests.

    Args:
        logp: log π, nats, any shape, with gradient.
        reference_logp: log π_ref, nats, the same shape; detached here.
        estimator: ``k1``, ``k2`` or ``k3``.

    Raises:
        ValueError: when the estimator is unknown.

    Example:
        >>> round(kl_estimate(torch.tensor(-1.0), torch.tensor(-1.2)).item(), 4)
        0.0187
    """
    d = (reference_logp.detach() - logp).clamp(-KL_LIMIT, KL_LIMIT)
    if estimator == "k1":
        return -d
    if estimator == "k2":
        return 0.5 * d.square()
    if estimator == "k3":
        return torch.exp(d) - d - 1.0
    raise ValueError(f"kl_estimator must be k1, k2 or k3; got {estimator!r}")
