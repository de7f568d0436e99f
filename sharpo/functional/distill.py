"""Per-token terms that pull a policy towards its teacher: on sampled tokens, and between whole distributions."""

from __future__ import annotations

import math
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
        >>> [round(x + 0.0, 4) for x in logp.grad.tolist()]
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


class Distributions(NamedTuple):
    """Log-probabilities in nats of N next-token distributions, whole or cut to their likeliest tokens."""

    logp: Tensor
    """(N, K) fp32; K = V when whole, then in the vocabulary's order."""
    ids: Tensor | None = None
    """Which tokens, (N, K) int64; None = whole."""
    rest: Tensor | None = None
    """Log-probability of all other tokens together, (N,); None = whole."""


def likeliest(logp: Tensor, top: int) -> Distributions:
    """Cut whole distributions to their ``top`` likeliest tokens; 0, or V and more, keeps them whole.

    Args:
        logp: log p, (N, V), normalised.
        top: K.

    Example:
        >>> cut = likeliest(torch.tensor([[0.1, 0.7, 0.2]]).log(), 1)
        >>> cut.ids, round(cut.rest.exp().item(), 4)
        (tensor([[1]]), 0.3)
    """
    if not 0 < top < logp.shape[-1]:
        return Distributions(logp)
    kept, ids = logp.topk(top, dim=-1)
    return Distributions(kept, ids, _rest(logp, ids))


def divergence(logp: Tensor, target: Distributions, beta: float) -> Tensor:
    """JSD_β between the target and a policy, (N,): over the whole vocabulary, or over K tokens and the rest as one.

    Args:
        logp: log p of the policy, (N, V), normalised, with gradient.
        target: the teacher's, for the same N tokens; detached here.
        beta: weight of the teacher in the mixture, in (0, 1).

    Example:
        >>> teacher, student = torch.tensor([[0.7, 0.2, 0.1]]).log(), torch.tensor([[0.5, 0.4, 0.1]]).log()
        >>> [round(divergence(student, likeliest(teacher, k), 0.5).item(), 4) for k in (3, 2, 1)]
        [0.0254, 0.0254, 0.021]
    """
    if target.ids is None or target.rest is None:
        return jensen_shannon(target.logp, logp, beta)
    mine = torch.cat([logp.gather(-1, target.ids), _rest(logp, target.ids)[:, None]], dim=-1)
    return jensen_shannon(torch.cat([target.logp, target.rest[:, None]], dim=-1), mine, beta)


def jensen_shannon(teacher_logp: Tensor, logp: Tensor, beta: float) -> Tensor:
    """JSD_β = β KL(p_T ‖ M) + (1 − β) KL(p ‖ M),  M = β p_T + (1 − β) p, (N,) nats (arXiv 2601.18734).

    Args:
        teacher_logp: log p_T, (N, K), normalised; detached here.
        logp: log p, (N, K), normalised, with gradient.
        beta: in (0, 1).

    Raises:
        ValueError: when beta is not strictly between 0 and 1, where the formula is 0 for all pairs.

    Example:
        >>> pair = torch.tensor([[0.7, 0.2, 0.1]]).log(), torch.tensor([[0.5, 0.4, 0.1]]).log()
        >>> round(jensen_shannon(*pair, 0.5).item(), 4)
        0.0254
    """
    if not 0 < beta < 1:
        raise ValueError(f"beta must be strictly between 0 and 1, got {beta}")
    teacher_logp = teacher_logp.detach()
    mixed = torch.logaddexp(teacher_logp + math.log(beta), logp + math.log1p(-beta))
    forward = teacher_logp.exp() * (teacher_logp - mixed)
    return (beta * forward + (1.0 - beta) * logp.exp() * (logp - mixed)).sum(-1)


def _rest(logp: Tensor, ids: Tensor) -> Tensor:
    """Sum the tokens that are not listed, in logs and directly: 1 − Σ of the listed ones would cancel."""
    return torch.logsumexp(logp.scatter(-1, ids, -torch.inf), dim=-1)
