"""SHARPO's four steps on a flat table of segments: mean gap, bounded weight, length balance, interpolation.

All four take and return (S,) vectors, are detached, and give exactly the neutral value (gap 0, weight 1) where a
segment is not selected. Source: arXiv 2610.00838 (abstract, Figure 2); what its text leaves open is in docs/decisions/.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from sharpo.functional.masked import masked_fill
from sharpo.functional.segment_ops import index_size, segment_any, segment_mean, segment_sum

Bounding = Literal["sigmoid2", "exp_clip", "tanh", "linear_clip", "zscore_clip"]
SignMode = Literal["outcome", "unsigned", "positive_only", "negative_only"]
GapNorm = Literal["none", "group_mean_abs", "traj_center"]
Select = Literal["has_other_success", "failed_only", "mixed_groups_only"]

EVIDENCE_LIMIT = 20.0
"""|τ·sign(A)·ḡ| is clamped here, so that exp and σ stay finite."""
NORMALIZER_FLOOR = 1e-6


def _one_of(value: str, kind: object, name: str) -> None:
    if value not in get_args(kind):
        raise ValueError(f"{name} must be one of {', '.join(get_args(kind))}; got {value!r}")


def select_segments(selected: Tensor, success: Tensor, group: Tensor, rule: Select = "has_other_success") -> Tensor:
    """Return which segments may be reweighted, (S,) bool, a subset of ``selected``.

    Args:
        selected: the episode has a hint from another, successful episode and the segment has tokens, (S,) bool.
        success: the segment's episode succeeded, (S,) bool.
        group: group of each segment, (S,) int.
        rule: ``has_other_success`` keeps them all, ``failed_only`` those of failed episodes, ``mixed_groups_only``
            those of groups with both failed and successful episodes.
    """
    _one_of(rule, Select, "select")
    if rule == "failed_only":
        return selected & ~success
    if rule == "mixed_groups_only":
        size = index_size(group)
        mixed = segment_any(success, group, size) & segment_any(~success, group, size)
        return selected & mixed[group]
    return selected


def sign_selected(selected: Tensor, base: Tensor, sign_mode: SignMode) -> Tensor:
    """Return ``selected`` less what a one-sided sign mode leaves alone, (S,) bool."""
    _one_of(sign_mode, SignMode, "sign_mode")
    if sign_mode == "positive_only":
        return selected & (base > 0)
    if sign_mode == "negative_only":
        return selected & (base < 0)
    return selected


def mean_gap(student_logp: Tensor, teacher_logp: Tensor, length: Tensor, selected: Tensor) -> Tensor:
    """ḡ_k = (1/n_k) Σ_{t∈S_k} [log π_T(y_t) − log π_S(y_t)], nats per token; 0 where not selected. Detached.

    Args:
        student_logp: Σ_t log π_S over the span, (S,) float, nats.
        teacher_logp: Σ_t log π_T over the span, (S,) float, nats; read only where selected.
        length: n_k, tokens of the span, (S,) int.
        selected: (S,) bool.

    Raises:
        ValueError: when a selected segment has no tokens or a log-probability that is not finite.

    Example:
        >>> mean_gap(*(torch.tensor([x]) for x in (-3.0, -1.0, 4, True))).tolist()
        [0.5]
    """
    total = masked_fill(teacher_logp.detach() - student_logp.detach(), selected)
    if bool((selected & (length < 1)).any()):
        raise ValueError("mean_gap: a selected segment has length 0; a segment without tokens must not be selected")
    if not bool(torch.isfinite(total).all()):
        raise ValueError("mean_gap: a selected segment has a log-probability that is NaN or infinite")
    return total / torch.where(selected, length, torch.ones_like(length)).to(total.dtype)


def normalize_gap(
    gap: Tensor, length: Tensor, selected: Tensor, group: Tensor, episode: Tensor, mode: GapNorm = "none"
) -> Tensor:
    """Rescale the evidence: ``none`` ḡ · ``group_mean_abs`` ḡ/(mean_g|ḡ| + 1e-6) · ``traj_center`` ḡ − Σnḡ/Σn.

    Means run over selected segments, of the group (as GRSD does, arXiv 2607.28076) or of the episode by tokens.
    """
    _one_of(mode, GapNorm, "gap_norm")
    if mode == "group_mean_abs":
        scale = segment_mean(gap.abs(), group, index_size(group), selected)
        return gap / (scale[group] + 1e-6)
    if mode == "traj_center":
        size = index_size(episode)
        tokens = length.to(gap.dtype)
        mass = segment_sum(tokens, episode, size, selected).clamp(min=1)
        centre = segment_sum(tokens * gap, episode, size, selected) / mass
        return masked_fill(gap - centre[episode], selected)
    return gap


def _zscore(gap: Tensor, episode: Tensor, selected: Tensor) -> Tensor:
    """Return (ḡ − mean)/std inside each episode (population std); 0 where the std is 0."""
    size = index_size(episode)
    centred = masked_fill(gap - segment_mean(gap, episode, size, selected)[episode], selected)
    std = segment_mean(centred.square(), episode, size, selected).sqrt()[episode]
    return torch.where(std > 1e-8, centred / torch.where(std > 1e-8, std, torch.ones_like(std)), torch.zeros_like(std))


def bounded_weight(
    gap: Tensor,
    base: Tensor,
    selected: Tensor,
    episode: Tensor,
    *,
    bound: Bounding = "sigmoid2",
    tau: float = 1.0,
    alpha: float = 0.2,
    alpha_clip: float | None = None,
    sign_mode: SignMode = "outcome",
) -> Tensor:
    """w_k = 2σ(τ·sign(A_k)·ḡ_k) ∈ (0, 2): more of the advantage when hindsight backs its sign; 1 where not selected.

    ``bound`` chooses among, with x = τ·sign(A)·ḡ clamped to ±20: ``sigmoid2`` 2σ(x) · ``exp_clip`` clip(eˣ, 1±α) (RLSD,
    arXiv 2604.03128) · ``tanh`` 1 + α·tanh x · ``linear_clip`` clip(1 + x, 1±α) · ``zscore_clip``
    clip(1 + α·sign(A)·z, 1±α) with z the z-score of ḡ inside the episode (AgentOPSD, arXiv 2608.05987; τ cancels).

    Args:
        gap: ḡ_k, (S,) float, nats per token.
        base: A_k, (S,) float.
        selected: (S,) bool.
        episode: episode of each segment, (S,) int; read by ``zscore_clip`` alone.
        bound: the squashing.
        tau: τ > 0: larger = more contrast.
        alpha: half-width α of every bound but ``sigmoid2``, in (0, 1].
        alpha_clip: a further clip to [1 − α', 1 + α']; None = none.
        sign_mode: ``outcome`` uses sign(A); ``unsigned`` uses +1, which punishes helpful segments of failed episodes
            *more*; ``positive_only`` and ``negative_only`` reweight only segments with A > 0 or A < 0.

    Example:
        >>> one, yes = torch.tensor([0.9]), torch.tensor([True])
        >>> round(bounded_weight(one, -one, yes, torch.tensor([0])).item(), 4)
        0.5781
    """
    _one_of(bound, Bounding, "bound.kind")
    selected = sign_selected(selected, base, sign_mode)
    sign = torch.ones_like(base) if sign_mode == "unsigned" else torch.sign(base.detach())
    x = sign * (tau * gap.detach()).clamp(-EVIDENCE_LIMIT, EVIDENCE_LIMIT)
    if bound == "sigmoid2":
        weight = 2.0 * torch.sigmoid(x)
    elif bound == "exp_clip":
        weight = torch.exp(x).clamp(1.0 - alpha, 1.0 + alpha)
    elif bound == "tanh":
        weight = 1.0 + alpha * torch.tanh(x)
    elif bound == "linear_clip":
        weight = (1.0 + x).clamp(1.0 - alpha, 1.0 + alpha)
    else:
        weight = (1.0 + alpha * sign * _zscore(gap.detach(), episode, selected)).clamp(1.0 - alpha, 1.0 + alpha)
    if alpha_clip is not None:
        weight = weight.clamp(1.0 - alpha_clip, 1.0 + alpha_clip)
    return masked_fill(weight, selected, 1.0)


def length_factor(
    length: Tensor, selected: Tensor, scope: Tensor, *, gamma: float = 0.0, clip: float | None = None
) -> Tensor:
    """b_k = (n̄ / n_k)^γ, clipped to [1/c, c]; n̄ = mean of n over the selected segments of the scope; 1 elsewhere.

    Args:
        length: n_k, (S,) int, tokens.
        selected: (S,) bool.
        scope: what is balanced together (episode, group, or all zeros for the batch), (S,) int.
        gamma: 0 = lengths count as they are; 1 = every segment gets the same budget whatever its length.
        clip: c >= 1; None = no clip.
    """
    tokens = torch.where(selected, length, torch.ones_like(length)).float()
    if gamma == 0:
        return torch.ones_like(tokens)
    average = segment_mean(tokens, scope, index_size(scope), selected)
    factor = (average[scope] / tokens).pow(gamma)
    if clip is not None:
        factor = factor.clamp(1.0 / clip, clip)
    return masked_fill(factor, selected, 1.0)


def normalizer(weight: Tensor, length: Tensor, selected: Tensor, scope: Tensor) -> Tensor:
    """Z = Σ_k n_k w_k / Σ_k n_k over the selected segments of each scope, >= 1e-6, (slots,); 1 for an empty one."""
    size = index_size(scope)
    tokens = length.to(weight.dtype)
    mass = segment_sum(tokens, scope, size, selected)
    total = segment_sum(tokens * weight, scope, size, selected)
    mean = torch.where(mass > 0, total, torch.ones_like(total)) / torch.where(mass > 0, mass, torch.ones_like(mass))
    return mean.clamp(min=NORMALIZER_FLOOR)


def length_balance(
    weight: Tensor,
    length: Tensor,
    selected: Tensor,
    scope: Tensor,
    *,
    gamma: float = 0.0,
    normalize: bool = True,
    clip: float | None = None,
) -> Tensor:
    """v_k = w_k b_k / Z, Z = Σ n w b / Σ n: credit moves between the segments of a scope and none is created.

    With ``normalize`` the token-weighted mean of v over the scope is 1, so Σ n_k A v_k = Σ n_k A for a constant A.
    The rule that rescales every step to the same mean |A| is not offered: on weights that are constant inside a segment
    it returns the base advantage (docs/algorithms/sharpo.md).

    Args:
        weight: w_k, (S,) float, non-negative.
        length: n_k, (S,) int, tokens.
        selected: (S,) bool; other segments get exactly 1 and take no part in Z.
        scope: what is balanced together, (S,) int.
        gamma: exponent γ of :func:`length_factor`.
        normalize: divide by Z.
        clip: c of :func:`length_factor`.

    Example:
        >>> w, n, all_ = torch.tensor([0.5, 1.5]), torch.tensor([3, 1]), torch.tensor([True, True])
        >>> length_balance(w, n, all_, torch.tensor([0, 0])).tolist()  # Z = (1.5 + 1.5) / 4
        [0.6666666865348816, 2.0]
    """
    balanced = weight * length_factor(length, selected, scope, gamma=gamma, clip=clip).to(weight.dtype)
    if normalize:
        balanced = balanced / normalizer(balanced, length, selected, scope)[scope]
    return masked_fill(balanced, selected, 1.0)


def mix(multiplier: Tensor, lam: float) -> Tensor:
    """(1 − λ) + λ v, written 1 + λ(v − 1): exactly 1 for λ = 0 or v = 1."""
    return 1.0 + lam * (multiplier - 1.0)


def interpolate(base: Tensor, multiplier: Tensor, lam: float) -> Tensor:
    """A_eff = A · [(1 − λ) + λ v]; bit for bit A where λ = 0 or v = 1.

    Args:
        base: A_k, (S,) float.
        multiplier: v_k, (S,) float.
        lam: λ in [0, 1].

    Example:
        >>> interpolate(torch.tensor([-1.0]), torch.tensor([1.5]), 0.2).tolist()
        [-1.100000023841858]
    """
    return base * mix(multiplier, lam)
