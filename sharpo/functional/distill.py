"""Per-token terms that pull a policy towards its teacher: on sampled tokens, and between whole distributions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

RATIO_LIMIT = 10.0
GAP_LIMIT = 20.0


class Gated(NamedTuple):
    """A gated term and its gate, each with the shape of ``logp``."""

    loss: Tensor
    gate: Tensor
    """g, detached."""


def gated_surrogate(logp: Tensor, teacher_logp: Tensor, beta: float) -> Gated:
    """L = g · (log π_T − log π),  g = σ(β · (log π_T − log π)), detached (SDAR, arXiv 2605.15155; its public code).

    ∂L/∂log π = −g: every sampled token is raised, more where the teacher agrees; none is ever lowered. With β = 0 the
    gate is ½ and the gradient holds nothing of the teacher at all.

    Args:
        logp: current log π of the sampled tokens, nats, any shape, with gradient.
        teacher_logp: log π_T of the same tokens, the same shape; detached here.
        beta: steepness of the gate per nat.

    Example:
        >>> logp = torch.tensor([-1.0, -0.5, -2.0], requires_grad=True)
        >>> out = gated_surrogate(logp, torch.tensor([-0.8, -0.9, -2.0]), 5.0)
        >>> out.loss.mean().backward()
        >>> round(out.loss.mean().item(), 4), [round(x, 4) for x in logp.grad.tolist()]
        (0.0328, [-0.2437, -0.0397, -0.1667])
    """
    gap = teacher_logp.detach() - logp
    gate = torch.sigmoid(beta * gap.detach())
    return Gated(gate * gap, gate)


def sampled_policy_gradient(logp: Tensor, teacher_logp: Tensor) -> Tensor:
    """L = −a · log π,  a = log π_T − log π, detached.

    On tokens drawn from π its expected gradient is that of KL(π ‖ π_T), the reverse divergence (On-Policy
    Self-Distillation, arXiv 2601.18734, the form that needs sampled tokens only).

    Args:
        logp: current log π of the sampled tokens, nats, any shape, with gradient.
        teacher_logp: log π_T of the same tokens, the same shape; detached here.

    Example:
        >>> logp = torch.tensor([-1.0, -0.5, -2.0], requires_grad=True)
        >>> sampled_policy_gradient(logp, torch.tensor([-0.8, -0.9, -2.0])).mean().backward()
        >>> [round(x, 4) for x in logp.grad.tolist()]
        [-0.0667, 0.1333, 0.0]
    """
    return -(teacher_logp - logp).detach() * logp


def weighted_k3(logp: Tensor, old_logp: Tensor, teacher_logp: Tensor) -> Tensor:
    """L = ρ · (eᵈ − 1 − d),  d = log π_T − log π,  ρ = π/π_old (Skill-SD, in SDAR's public code).

    ρ keeps its gradient, so on tokens drawn from π_old the expected gradient is that of KL(π ‖ π_T). log ρ is bounded
    above by 10 and the d in the exponential by 20.

    Args:
        logp: current log π of the sampled tokens, nats, any shape, with gradient.
        old_logp: log π_old at scoring time, the same shape; detached here.
        teacher_logp: log π_T, the same shape; detached here.

    Example:
        >>> logp = torch.tensor([-1.0, -0.5, -2.0])
        >>> k3 = weighted_k3(logp, logp, torch.tensor([-0.8, -0.9, -2.0]))
        >>> [round(x, 4) for x in k3.tolist()], round(k3.mean().item(), 4)
        ([0.0214, 0.0703, 0.0], 0.0306)
    """
    gap = teacher_logp.detach() - logp
    ratio = torch.exp((logp - old_logp.detach()).clamp(max=RATIO_LIMIT))
    return ratio * (torch.exp(gap.clamp(max=GAP_LIMIT)) - 1.0 - gap)
