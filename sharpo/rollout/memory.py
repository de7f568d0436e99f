"""New successes reach the memory of a hint, the same on every rank and in the order of the schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import distributed

from sharpo.episode import Episode, EpisodeGroup, Task
from sharpo.hints.memory import Memory, slim
from sharpo.protocols import HintBuilder


def memory_of(hint: HintBuilder) -> Memory | None:
    """Return the memory of a hint that has one."""
    return getattr(hint, "memory", None)


def remember(hint: Any, tasks: Sequence[Task], groups: Sequence[EpisodeGroup], rank: int = 0, world: int = 1) -> None:
    """Let a hint remember this iteration's successes, those of all ranks; a collective when there are several.

    Called after the hints of the iteration are built, so that no attempt is shown in the iteration that made it.

    Args:
        hint: keeps them if it has a ``memory``; it chooses one of a group by ``chosen``.
        tasks: this rank's tasks in order, global places ``rank, rank + world, ...``.
        groups: those of them that are whole, in the same order.
        rank: this process.
        world: number of processes.
    """
    memory = memory_of(hint)
    if memory is None:
        return
    rest = list(groups)
    mine: list[tuple[int, str]] = []
    for place, task in enumerate(tasks):
        if not rest or rest[0].task.id != task.id:  # a group that lost a member is not there
            continue
        best = hint.chosen(rest.pop(0))
        if best is not None:
            mine.append((rank + world * place, slim(best).to_json()))
    parts: list[Any] = [mine]
    if world > 1:
        parts = [None] * world
        distributed.all_gather_object(parts, mine)
    memory.remember(Episode.from_json(text) for _, text in sorted(pair for part in parts for pair in part))
