"""The shuffled-teacher control: what would the teacher say if its hint came from another task?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import torch
from torch import Tensor, distributed

from sharpo.batch import Batch, Update
from sharpo.functional.credit_report import segment_gaps
from sharpo.rollout.buffer import RolloutBuffer
from sharpo.rollout.collate import Row, to_batch
from sharpo.scoring import Policy, runner, teacher_job
from sharpo.seeding import derive


@dataclass(frozen=True)
class Control:
    """The gaps of N segments under two hints: their own, and one that was built for another task.

    Args:
        own: mean gap with the own hint, (N,) float, nats per token.
        other: mean gap with the other task's hint, (N,) float, nats per token.
        success: the segment's episode succeeded, (N,) bool.
        rows: rows that were scored once more.
        left_out: rows drawn that no other task's hint fits: with one task there is none.
    """

    own: Tensor
    other: Tensor
    success: Tensor
    rows: int
    left_out: int


@torch.no_grad()
def shuffled_teacher(
    buffer: RolloutBuffer,
    teacher: Policy,
    *,
    rows: int,
    temperature: float,
    device: torch.device | str,
    lockstep: bool = False,
) -> Control:
    """Score a few rows of a scored buffer once more, each with the hint of another task of the same iteration.

    Nothing of the buffer changes and no generator is touched. A row that is longer with its new hint than every row
    that was scored before is not made, so memory is what scoring needed.

    Args:
        buffer: one rank's rows, scored.
        teacher: the weights that scored the hinted rows.
        rows: how many of this rank's rows, successes and failures in turn; drawn by (seed, iteration).
        temperature: of the pass, the one of scoring.
        device: where the passes run.
        lockstep: every pass is a collective: all ranks make the same number of passes.
    """
    table = buffer.segments
    gap, scored = segment_gaps(table)
    drawn = _draw(buffer, scored, rows)
    hints = zip(drawn, _other_hints(buffer, drawn), strict=True)
    chosen = [replace(buffer.rows[number], hint=hint) for number, hint in hints if hint is not None]
    chosen.sort(key=lambda row: row.teacher_length)
    width = buffer.sizes.score_rows or buffer.sizes.micro_rows
    parts = [chosen[i : i + width] for i in range(0, len(chosen), width)]
    batches = [_batch(buffer, part, with_teacher=True) for part in parts]
    plain = _batch(buffer, buffer.rows[:1], with_teacher=False)
    jobs = [teacher_job(batch, torch.ones(batch.token_ids.shape[0], dtype=torch.bool)) for batch in batches]
    run, filler = runner(temperature, device, lockstep), (plain.token_ids, plain.attention, plain.action_mask)
    total, seen = torch.zeros(len(table)), torch.zeros(len(table), dtype=torch.bool)
    for batch, logp in zip(batches, run(teacher, jobs, filler), strict=True):
        inside = batch.span_mask & (batch.segment_index >= 0)
        index = batch.segment_index[inside]
        total.index_add_(0, index, logp[:, -batch.token_ids.shape[1] :][inside].float())
        seen[index] = True
    seen &= scored
    student = table.student_logp if table.student_logp is not None else torch.zeros(len(table))
    other = (total - student) / table.length.clamp(min=1)
    return Control(gap[seen], other[seen], table.success[seen], len(chosen), len(drawn) - len(chosen))


def over_all_ranks(x: Tensor, device: torch.device | str) -> Tensor:
    """Return the rows of every rank, (N, C) float -> (ΣN, C), in the order of ranks. A collective."""
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return x
    world = distributed.get_world_size()
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world)]
    distributed.all_gather(sizes, torch.tensor([len(x)], device=device))
    most = max(int(n) for n in sizes)
    mine = torch.zeros(most, x.shape[1], device=device)
    mine[: len(x)] = x.to(device)
    every = [torch.empty_like(mine) for _ in range(world)]
    distributed.all_gather(every, mine)
    return torch.cat([part[: int(n)] for part, n in zip(every, sizes, strict=True)]).cpu()


def _batch(buffer: RolloutBuffer, rows: Sequence[Row], *, with_teacher: bool) -> Batch:
    update = Update(sum(row.trained for row in rows), sum(row.trained > 0 for row in rows))
    return to_batch(
        rows,
        pad_id=buffer.origin.pad_id,
        update=update,
        policy_version=buffer.policy_version,
        with_teacher=with_teacher,
    )


def _segments(row: Row) -> list[int]:
    """Return the segments that the row's spans belong to, each once."""
    return sorted({k for k, inside in zip(row.segment, row.span, strict=True) if inside and k >= 0})


def _draw(buffer: RolloutBuffer, scored: Tensor, rows: int) -> list[int]:
    """Return numbers of rows whose teacher was run: of successful and of failed episodes in turn."""
    hinted = [(r, _segments(row)) for r, row in enumerate(buffer.rows) if row.hint is not None]
    order = [(r, bool(buffer.segments.success[k[0]])) for r, k in hinted if bool(scored[k].any())]
    random.Random(derive(buffer.origin.seed, "control", buffer.iteration)).shuffle(order)  # noqa: S311
    solved, failed = ([r for r, success in order if success is kind] for kind in (True, False))
    pairs = zip_longest(solved, failed)
    return [r for pair in pairs for r in pair if r is not None][:rows]


def _other_hints(buffer: RolloutBuffer, drawn: Sequence[int]) -> list[tuple[int, ...] | None]:
    """Return for each row a hint of another group that is not its own and fits, drawn by (seed, iteration, row)."""
    groups = [int(buffer.segments.group[max(row.segment)]) for row in buffer.rows]
    longest = max((row.teacher_length for row in buffer.rows), default=0)
    known = dict.fromkeys((group, row.hint) for group, row in zip(groups, buffer.rows, strict=True))  # each once
    found: list[tuple[int, ...] | None] = []
    for number in drawn:
        row = buffer.rows[number]
        fits = [
            hint
            for group, hint in known
            if hint is not None and group != groups[number] and hint != row.hint and len(row) + len(hint) <= longest
        ]
        place = derive(buffer.origin.seed, "control", buffer.iteration, number)
        found.append(fits[place % len(fits)] if fits else None)
    return found
