"""Credit by the token: the gap of one token, its bounded weight, its multiplier, and a step's equaliser.

All are detached and give exactly the neutral value (gap 0, weight 1, multiplier 1, factor 1) where a token or a step
takes no part. Sources: RLSD (arXiv 2604.03128) and StepOPSD (arXiv 2605.27140).
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from sharpo.functional.credit import mix
from sharpo.functional.masked import masked_fill
from sharpo.functional.segment_ops import index_size, segment_mean

TokenWeight = Literal["sigmoid", "exp"]
STEP_FLOOR = 1e-6


def scored_tokens(chosen: Tensor, index: Tensor, mask: Tensor, teacher_logp: Tensor) -> Tensor:
    """Return which tokens may be reweighted, (B, T) bool: of a chosen segment, in a row that the teacher has read.

    Args:
        chosen: segments that may be reweighted, (S,) bool.
        index: segment of each token, (B, T) int, negative outside.
        mask: tokens that the method acts on, (B, T) bool.
        teacher_logp: (B, T) float, nats; NaN on all of a row that the teacher has not read.

    Example:
        >>> logp = torch.tensor([[-1.0, -2.0], [float("nan")] * 2])
        >>> where = torch.tensor([[0, 1], [0, 0]])
        >>> scored_tokens(torch.tensor([True, False]), where, where >= 0, logp).tolist()
        [[True, False], [False, False]]
    """
    if not chosen.numel():
        return torch.zeros_like(mask)
    inside = mask & (index >= 0)
    read = (inside & ~teacher_logp.isnan()).any(-1, keepdim=True)
    return inside & read & chosen[index.clamp(min=0)]


def token_gap(student_logp: Tensor, teacher_logp: Tensor, mask: Tensor) -> Tensor:
    """Δ_t = log π_T(y_t) − log π_S(y_t), nats; 0 outside the mask. Detached.

    Args:
        student_logp: (B, T) float, nats.
        teacher_logp: (B, T) float, nats; read only where the mask is True.
        mask: (B, T) bool.

    Raises:
        ValueError: when a token inside the mask has a log-probability that is NaN or infinite.

    Example:
        >>> token_gap(torch.tensor([[-1.0]]), torch.tensor([[-0.5]]), torch.tensor([[True]])).tolist()
        [[0.5]]
    """
    gap = masked_fill(teacher_logp.detach() - student_logp.detach(), mask)
    if not bool(torch.isfinite(gap).all()):
        raise ValueError("token_gap: a token that the teacher has read has a log-probability that is NaN or infinite")
    return gap


def token_weight(
    gap: Tensor, advantage: Tensor, mask: Tensor, *, kind: TokenWeight = "sigmoid", alpha: float = 0.2
) -> Tensor:
    """w_t = clip(f(sign(A_t)·Δ_t), 1 − α, 1 + α), f = 2σ or exp; 1 outside the mask.

    Args:
        gap: Δ_t, (B, T) float, nats, finite; the clip keeps exp of any of them finite.
        advantage: A_t, (B, T) float.
        mask: (B, T) bool.
        kind: ``sigmoid`` 2σ(x) (StepOPSD's default) or ``exp`` eˣ (RLSD).
        alpha: half-width α in (0, 1].

    Example:
        >>> one, yes = torch.tensor([[0.1]]), torch.tensor([[True]])
        >>> round(token_weight(one, -one, yes, kind="exp").item(), 4)  # exp(−0.1)
        0.9048
    """
    if kind not in get_args(TokenWeight):
        raise ValueError(f"weight must be one of {', '.join(get_args(TokenWeight))}; got {kind!r}")
    x = torch.sign(advantage.detach()) * gap
    raw = torch.exp(x) if kind == "exp" else 2.0 * torch.sigmoid(x)
    return masked_fill(raw.clamp(1.0 - alpha, 1.0 + alpha), mask, 1.0)


def token_multiplier(
    student_logp: Tensor,
    teacher_logp: Tensor,
    advantage: Tensor,
    mask: Tensor,
    *,
    kind: TokenWeight,
    alpha: float,
    lam: float,
) -> Tensor:
    """m_t = (1 − λ) + λ w_t, so that A_eff,t = A_t m_t; exactly 1 for λ = 0, Δ_t = 0, A_t = 0, or outside the mask.

    Args:
        student_logp: (B, T) float, nats.
        teacher_logp: (B, T) float, nats; read only where the mask is True.
        advantage: A_t, (B, T) float.
        mask: tokens that are reweighted, (B, T) bool.
        kind: of :func:`token_weight`.
        alpha: of :func:`token_weight`.
        lam: λ in [0, 1].
    """
    gap = token_gap(student_logp, teacher_logp, mask)
    return mix(token_weight(gap, advantage, mask, kind=kind, alpha=alpha), lam)


def equal_step_factor(mean: Tensor, usable: Tensor, episode: Tensor, *, clip: float = 2.0) -> Tensor:
    """c_k = clip(m̄ / m_k, 1/c, c), m̄ = mean of m over the episode's usable steps; 1 for an only one, and elsewhere.

    StepOPSD's ``equal_step_mean_abs``: afterwards all steps of an episode have the same mean |A_eff|/|A|. It equalises
    the mean of a token, not the total of a step, so it does not balance lengths.

    Args:
        mean: m_k, mean multiplier of the step's tokens, (S,) float, non-negative; floored at 1e-6.
        usable: the step takes part, (S,) bool.
        episode: (S,) int.
        clip: c >= 1.

    Example:
        >>> m, yes = torch.tensor([0.5, 1.5]), torch.tensor([True, True])
        >>> equal_step_factor(m, yes, torch.tensor([0, 0])).tolist()
        [2.0, 0.6666666865348816]
    """
    size = index_size(episode)
    mean = masked_fill(mean, usable, 1.0)
    target = segment_mean(mean, episode, size, usable)[episode]
    factor = (target / mean.clamp(min=STEP_FLOOR)).clamp(1.0 / clip, clip)
    return masked_fill(factor, usable, 1.0)
