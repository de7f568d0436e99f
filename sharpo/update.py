"""The Update stage: one micro-batch through the policy and the objective; the teacher first, where it is compared."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sharpo.algorithms.base import Algorithm
from sharpo.batch import Batch, Divergence, LossOutput, PolicyOutput, Scores, Taught

Policy = Callable[..., PolicyOutput]


def step(
    policy: Policy,
    algorithm: Algorithm,
    rows: Batch,
    scores: Scores,
    temperature: float,
    teacher: Policy | None = None,
    *,
    lockstep: bool = False,
) -> LossOutput:
    """Do one forward pass of the policy, after one of the teacher when the algorithm compares distributions.

    Args:
        policy: the student.
        algorithm: its objective is the loss.
        rows: a micro-batch; with teacher ids when the algorithm compares distributions.
        scores: of the same rows.
        temperature: of both passes.
        teacher: sees the hinted ids; None = the policy of this moment does, without gradient.
        lockstep: every pass is a collective (sharded weights): a teacher's pass is made even without a hinted row.
    """
    mask = rows.attention & (rows.attention.cumsum(1) > 1) if algorithm.scores_context else rows.action_mask
    compared: dict[str, Taught] = {}
    if algorithm.divergence is not None:
        compared["taught"] = teach(teacher or policy, rows, algorithm.divergence, temperature, lockstep)
    output = policy(rows.token_ids, rows.attention, mask, temperature, with_entropy=algorithm.needs_entropy, **compared)
    return algorithm.objective(output, scores, rows)


@torch.no_grad()
def teach(teacher: Policy, rows: Batch, divergence: Divergence, temperature: float, lockstep: bool) -> Taught:
    """Return the teacher's next-token distributions at every trained token of the rows that have a hint.

    They live as long as the micro-batch: N·K numbers for K likeliest tokens, N·V for whole distributions.
    """
    hinted = torch.zeros(len(rows.token_ids), dtype=torch.bool, device=rows.token_ids.device)
    ids, attention = rows.token_ids[:1], rows.attention[:1]
    at = torch.zeros_like(attention)
    if rows.teacher_token_ids is not None and rows.teacher_attention is not None:
        hinted = rows.teacher_attention.any(1)
    if hinted.any() and rows.teacher_token_ids is not None and rows.teacher_attention is not None:
        ids, attention = rows.teacher_token_ids[hinted], rows.teacher_attention[hinted]
        at = torch.zeros_like(attention)
        at[:, -rows.action_mask.shape[1] :] = rows.action_mask[hinted]
    elif not lockstep:
        return Taught(torch.zeros_like(rows.action_mask), (torch.zeros(0, 1, device=ids.device), None, None), 0.5)
    seen = teacher(ids, attention, at, temperature, top=divergence.top).distributions
    assert seen is not None
    if torch.is_autocast_enabled(ids.device.type):  # weights cast without gradient must not serve the student's pass
        torch.clear_autocast_cache()
    return Taught(rows.action_mask & hinted[:, None], seen, divergence.beta)
