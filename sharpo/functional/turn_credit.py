"""Credit by the turn, as the neighbours of SHARPO do it: evidence relative to the group, change of a belief.

All are detached and give exactly the neutral value (evidence 0, multiplier 1) where a turn takes no part. Sources: GRSD
(arXiv 2607.28076) and AgentOPSD (arXiv 2608.05987).
"""

from __future__ import annotations

import torch
from torch import Tensor

from sharpo.functional.credit import EVIDENCE_LIMIT
from sharpo.functional.masked import masked_fill
from sharpo.functional.segment_ops import index_size, segment_count, segment_mean, segment_sum


def relative_evidence(
    gap: Tensor, base: Tensor, selected: Tensor, group: Tensor, *, dead_zone: float = 0.0, clip: float = 0.2
) -> Tensor:
    """ĝ_k = clip(e_k / (mean_g|e| + 1e-6), ±c), e = exp(sign(A)·ḡ) − 1; 0 where |·| <= η or not selected. Detached.

    GRSD (arXiv 2607.28076). The dead zone acts on the ratio before the clip.

    Args:
        gap: ḡ_k, (S,) float, nats per token; clamped to ±20.
        base: A_k, (S,) float.
        selected: (S,) bool; the mean runs over these.
        group: (S,) int.
        dead_zone: η >= 0: a ratio no larger than this counts as no evidence.
        clip: c > 0.

    Example:
        >>> a, every = torch.tensor([1.0, 1.0, -1.0]), torch.ones(3, dtype=torch.bool)
        >>> gap, one_group = torch.tensor([0.2, -0.1, 0.3]), torch.zeros(3, dtype=torch.int64)
        >>> ratio = relative_evidence(gap, a, every, one_group, clip=9)
        >>> [round(x, 4) for x in ratio.tolist()]
        [1.1536, -0.4959, -1.3505]
    """
    x = torch.sign(base.detach()) * gap.detach().clamp(-EVIDENCE_LIMIT, EVIDENCE_LIMIT)
    evidence = masked_fill(torch.expm1(x), selected)
    scale = segment_mean(evidence.abs(), group, index_size(group), selected)[group]
    ratio = evidence / (scale + 1e-6)
    return masked_fill(ratio.clamp(-clip, clip), selected & (ratio.abs() > dead_zone))


def floored_multiplier(evidence: Tensor, lam: float, floor: float = 0.1) -> Tensor:
    """max(floor, 1 + λĝ), (S,) float: exactly 1 for λ = 0 or no evidence; the floor keeps the advantage's sign."""
    return (1.0 + lam * evidence).clamp(min=floor)


def belief_change(evidence: Tensor, prior: Tensor, episode: Tensor, turn: Tensor) -> Tensor:
    """ΔB_k = B_k − B_{k−1}, logit B_k = logit B_0 + Σ_{j<=k} e_j: how each turn moved the belief in success. Detached.

    AgentOPSD (arXiv 2608.05987).

    Args:
        evidence: e_k = Σ_t [log π_T − log π_S] of the turn, (S,) float, nats; 0 where there is none.
        prior: B_0, (S,) float in (0, 1), constant inside an episode.
        episode: (S,) int.
        turn: order of the turns inside an episode, (S,) int.

    Returns:
        (S,) float64; exactly 0 where e_k = 0.

    Example:
        >>> e, half, order = torch.tensor([0.5, -0.2, 1.0]), torch.full((3,), 0.5), torch.arange(3)
        >>> [round(x, 4) for x in belief_change(e, half, torch.zeros(3, dtype=torch.int64), order).tolist()]
        [0.1225, -0.048, 0.2114]
    """
    by_turn = torch.argsort(turn, stable=True)
    order = by_turn[torch.argsort(episode[by_turn], stable=True)]
    running = evidence.detach().double()[order].cumsum(0)
    before = torch.cat([running.new_zeros(min(1, running.numel())), running[:-1]])
    sorted_episode = episode[order]
    first = torch.ones_like(sorted_episode, dtype=torch.bool)
    first[1:] = sorted_episode[1:] != sorted_episode[:-1]
    start = segment_sum(before, sorted_episode, index_size(episode), first)[sorted_episode]
    odds = torch.logit(prior.double())[order] - start
    return torch.empty_like(running).index_copy(0, order, torch.sigmoid(odds + running) - torch.sigmoid(odds + before))


def success_rate(success: Tensor, episode: Tensor, group: Tensor) -> Tensor:
    """Return the share p of the group's G episodes that succeeded, kept in [1/2G, 1 − 1/2G], (S,) float64.

    Args:
        success: (S,) bool, constant inside an episode.
        episode: (S,) int.
        group: (S,) int.

    Example:
        >>> won, of = torch.tensor([True, True, False]), torch.tensor([0, 0, 1])
        >>> success_rate(won, of, torch.zeros(3, dtype=torch.int64)).tolist()
        [0.5, 0.5, 0.5]
    """
    share = 1.0 / segment_count(episode, index_size(episode))[episode].double()  # a turn's share of its episode
    size = index_size(group)
    members = segment_sum(share, group, size)[group]
    won = segment_sum(share, group, size, success)[group]
    return torch.minimum(torch.maximum(won, torch.full_like(won, 0.5)), members - 0.5) / members
