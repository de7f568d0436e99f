"""The Score and Credit stages: no-grad passes over the buffer with the weights that sampled it, then the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor, distributed

from sharpo.algorithms.base import Algorithm
from sharpo.batch import Batch, PolicyOutput, Scores
from sharpo.errors import GateError
from sharpo.functional.credit_report import multiplier_summary
from sharpo.segments import Segments

Policy = Callable[..., PolicyOutput]
Job = tuple[Tensor, Tensor, Tensor]
"""One pass: token ids, attention and the tokens to score, (B, T) each."""


class Gate(Protocol):
    """Compares the engine's log-probabilities with the trainer's; raises GateError above its threshold."""

    def check(self, behaviour_logp: Tensor, old_logp: Tensor, mask: Tensor) -> Mapping[str, float]:
        """Return the differences by name."""
        ...


class ScoredBuffer(Protocol):
    """What scoring reads from and writes to a rollout buffer."""

    segments: Segments
    iteration: int

    def score_batches(self) -> list[Batch]:
        """Return every row exactly once."""
        ...

    def set_scores(self, i: int, scores: Scores) -> None:
        """Keep the scores of score batch ``i``."""
        ...

    def set_segments(self, segments: Segments) -> None:
        """Keep the scored table."""
        ...

    def set_advantages(self, i: int, advantages: Tensor) -> None:
        """Keep the credit of score batch ``i``."""
        ...


@torch.no_grad()
def score(
    buffer: ScoredBuffer,
    policy: Policy,
    algorithm: Algorithm,
    *,
    temperature: float,
    device: torch.device | str,
    teacher: Policy | None = None,
    reference: Policy | None = None,
    gate: Gate | None = None,
    lockstep: bool = False,
) -> dict[str, float]:
    """Score every row once, sum over segments, let the algorithm assign credit, and write it into the buffer.

    Args:
        buffer: rollouts of one iteration; receives scores, the scored table and the advantages.
        policy: the student.
        algorithm: decides which passes are needed and turns the table into credit.
        temperature: of all passes, the one the rollouts were sampled at.
        device: where the passes run.
        teacher: scores the hinted ids; None = the student does.
        reference: the frozen initial policy, when the algorithm needs it.
        gate: compares engine and trainer log-probabilities.
        lockstep: every pass is a collective (sharded weights): all ranks make the same number of passes.

    Returns:
        Metrics by name.

    Raises:
        GateError: on every rank, when the gate fails on one.
    """
    batches = buffer.score_batches()
    teach = _rows_to_teach(batches, buffer.segments, algorithm, buffer.iteration)
    if algorithm.needs_scores:
        run = runner(temperature, device, lockstep)
        scores = _passes(batches, teach, run, policy, teacher, reference, algorithm)
    else:
        scores = [Scores(torch.full(batch.token_ids.shape, torch.nan)) for batch in batches]
    metrics = _pass_gate(batches, scores, gate, device) if algorithm.needs_scores else {}
    for i, scored in enumerate(scores):
        buffer.set_scores(i, scored)

    segments = segment_sums(buffer.segments, batches, scores) if algorithm.needs_scores else buffer.segments
    buffer.set_segments(segments)
    credit = algorithm.credit(segments, buffer.iteration)
    advantages = algorithm.advantages(batches, scores, segments, credit, buffer.iteration)
    for i, grid in enumerate(advantages):
        buffer.set_advantages(i, grid)
    seen = algorithm.report(segments, span_means(segments, batches, advantages)) | token_changes(
        segments, batches, advantages
    )
    report = {f"credit/{name}": float(value) for name, value in seen.items()}
    report["credit/teacher_rows"] = float(sum(int(rows.sum()) for rows in teach))
    return over_ranks(metrics | report, device)


def over_ranks(metrics: Mapping[str, float], device: torch.device | str) -> dict[str, float]:
    """Return the metrics of all ranks: the smallest of ``_min``, the largest of ``_max`` and ``max_abs``, else means.

    A rank without data (NaN) does not count; NaN stays where no rank has data. A collective: the names are the same on
    every rank.
    """
    if not distributed.is_initialized() or distributed.get_world_size() == 1 or not metrics:
        return dict(metrics)
    mine = torch.tensor(list(metrics.values()), dtype=torch.float32, device=device)
    every = [torch.empty_like(mine) for _ in range(distributed.get_world_size())]
    distributed.all_gather(every, mine)
    out = {}
    for name, values in zip(metrics, torch.stack(every, dim=1), strict=True):
        known = values[~values.isnan()]
        low, high = name.endswith("_min"), name.endswith(("_max", "max_abs"))
        kept = known.min() if low and known.numel() else known.max() if high and known.numel() else known.mean()
        out[name] = float(kept)
    return out


def segment_sums(segments: Segments, batches: list[Batch], scores: list[Scores]) -> Segments:
    """Return the table with s_k = Σ_{t ∈ span k} log π_S and t_k = Σ_{t ∈ span k} log π_T in nats.

    A segment whose teacher was not run has t_k = NaN and is no longer ``selected``.
    """
    student = torch.zeros(len(segments))
    teacher = torch.zeros(len(segments)) if scores and scores[0].teacher_logp is not None else None
    for batch, scored in zip(batches, scores, strict=True):
        inside = batch.span_mask & (batch.segment_index >= 0)
        index = batch.segment_index[inside]
        student.index_add_(0, index, scored.old_logp[inside].float())
        if teacher is not None and scored.teacher_logp is not None:
            teacher.index_add_(0, index, scored.teacher_logp[inside].float())
    if teacher is None:
        return segments.scored(student, None)
    return replace(segments.scored(student, teacher), selected=segments.selected & teacher.isfinite())


def span_means(segments: Segments, batches: list[Batch], advantages: list[Tensor]) -> Tensor:
    """Return the mean advantage of each segment's trained span tokens, (S,) float; the base one where it has none."""
    total, count = torch.zeros(len(segments)), torch.zeros(len(segments))
    for batch, grid in zip(batches, advantages, strict=True):
        inside = batch.span_mask & batch.action_mask & (batch.segment_index >= 0)
        index = batch.segment_index[inside]
        total.index_add_(0, index, grid[inside].float())
        count.index_add_(0, index, torch.ones(index.shape))
    return torch.where(count > 0, total / count.clamp(min=1), segments.base)


def token_changes(segments: Segments, batches: list[Batch], advantages: list[Tensor]) -> dict[str, Tensor]:
    """Return, over trained tokens with a base advantage: the share changed by more than 1 %, least and most A_eff/A."""
    ratios = []
    for batch, grid in zip(batches, advantages, strict=True):
        inside = batch.action_mask & (batch.segment_index >= 0)
        base = segments.base[batch.segment_index[inside]]
        ratios.append((grid[inside] / base)[base != 0])
    return multiplier_summary(torch.cat(ratios) if ratios else torch.zeros(0))


def _rows_to_teach(batches: list[Batch], segments: Segments, algorithm: Algorithm, iteration: int) -> list[Tensor]:
    """Return, for each batch, which rows (B,) have a hint that the algorithm will read."""
    if not algorithm.needs_teacher or not algorithm.teaches_at(iteration) or not len(segments):
        return [torch.zeros(batch.token_ids.shape[0], dtype=torch.bool) for batch in batches]
    useful = algorithm.teacher_reads(segments)
    rows = []
    for batch in batches:
        of_row = ((batch.segment_index >= 0) & useful[batch.segment_index.clamp(min=0)]).any(1)
        hinted = torch.zeros_like(of_row) if batch.teacher_attention is None else batch.teacher_attention.any(1)
        rows.append(of_row & hinted)
    return rows


def _passes(
    batches: list[Batch],
    teach: list[Tensor],
    run: Callable[[Policy, list[Job], Job], list[Tensor]],
    policy: Policy,
    teacher: Policy | None,
    reference: Policy | None,
    algorithm: Algorithm,
) -> list[Scores]:
    """Run all passes of one set of weights before those of another, so that sharded ranks stay together."""
    student = [(batch.token_ids, batch.attention, batch.action_mask) for batch in batches]
    hinted = {i: teacher_job(batches[i], rows) for i, rows in enumerate(teach) if rows.any()}
    if teacher is None:
        logp = run(policy, [*student, *hinted.values()], student[0])
    else:
        logp = run(policy, student, student[0]) + run(teacher, list(hinted.values()), student[0])
    old, taught = logp[: len(batches)], dict(zip(hinted, logp[len(batches) :], strict=True))
    frozen: list[Tensor] | None = None
    if algorithm.needs_reference:
        if reference is None:
            raise ValueError("score: the algorithm has a KL term, so it needs the reference policy; none was given")
        frozen = run(reference, student, student[0])
    scores = []
    for i, old_logp in enumerate(old):
        hindsight = torch.full_like(old_logp, torch.nan) if algorithm.needs_teacher else None
        if hindsight is not None and i in taught:
            hindsight[teach[i]] = taught[i][:, -old_logp.shape[1] :]
        scores.append(Scores(old_logp, hindsight, None if frozen is None else frozen[i]))
    return scores


def teacher_job(batch: Batch, rows: Tensor) -> Job:
    """Return the hinted rows and the sampled tokens' mask, shifted to the right-aligned columns."""
    assert batch.teacher_token_ids is not None
    assert batch.teacher_attention is not None
    attention = batch.teacher_attention[rows]
    mask = torch.zeros_like(attention)
    mask[:, -batch.action_mask.shape[1] :] = batch.action_mask[rows]
    return batch.teacher_token_ids[rows], attention, mask


def runner(
    temperature: float, device: torch.device | str, lockstep: bool
) -> Callable[[Policy, list[Job], Job], list[Tensor]]:
    """Return ``run(policy, jobs, filler) -> log-probabilities``; in lockstep all ranks make as many passes."""

    def run(scorer: Policy, jobs: list[Job], filler: Job) -> list[Tensor]:
        most = torch.tensor(len(jobs), device=device)
        if lockstep:  # agree before the first pass: with sharded weights every pass is a collective of its own
            distributed.all_reduce(most, op=distributed.ReduceOp.MAX)
        padded = [*jobs, *([tuple(x[:1] for x in filler)] * (int(most) - len(jobs)))]
        logp = [
            scorer(ids.to(device), attention.to(device), mask.to(device), temperature).logp.float().cpu()
            for ids, attention, mask in padded
        ]
        return logp[: len(jobs)]

    return run


def _pass_gate(
    batches: list[Batch], scores: list[Scores], gate: Gate | None, device: torch.device | str
) -> dict[str, float]:
    """Check the gate on all sampled tokens; a failure on one rank raises on all of them."""
    if gate is None:
        return {}
    known = [batch.action_mask & ~batch.behaviour_logp.isnan() for batch in batches]
    behaviour = torch.cat([batch.behaviour_logp[mask] for batch, mask in zip(batches, known, strict=True)])[None]
    old = torch.cat([scored.old_logp[mask] for scored, mask in zip(scores, known, strict=True)])[None]
    failure: GateError | None = None
    metrics: dict[str, float] = {}
    if behaviour.numel():
        try:
            metrics = dict(gate.check(behaviour, old, torch.ones_like(old, dtype=torch.bool)))
        except GateError as error:
            failure = error
    if distributed.is_initialized():
        failed = torch.tensor(int(failure is not None), device=device)
        distributed.all_reduce(failed, op=distributed.ReduceOp.MAX)
        if failed and failure is None:
            raise GateError("the log-probability gate failed on another rank; its message says where")
    if failure is not None:
        raise failure
    return metrics
