"""The rows of one iteration: batches to score, then micro-batches to train on, in exact counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset

from sharpo.batch import Batch, Scores, Update
from sharpo.errors import ConfigError
from sharpo.rollout.collate import NAN, Collated, to_batch
from sharpo.seeding import derive
from sharpo.segments import Segments

Reduce = Callable[[Tensor, Literal["sum", "max"]], Tensor]


def alone(x: Tensor, how: Literal["sum", "max"]) -> Tensor:
    """Reduce over a single process: the identity."""
    del how
    return x


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of an iteration.

    Args:
        groups: tasks per iteration, over all ranks.
        group_size: episodes per task, G >= 2.
        micro_rows: most rows of a micro-batch on one device.
        passes: how often every row is trained on.
        score_rows: most rows of a scoring batch; None = ``micro_rows``.
        max_row: longest row with its hint in tokens; None = the engine's window.
    """

    groups: int
    group_size: int
    micro_rows: int = 8
    passes: int = 1
    score_rows: int | None = None
    max_row: int | None = None

    def __post_init__(self) -> None:
        if self.group_size < 2:
            raise ConfigError(
                f"data.sizes.group_size={self.group_size}: group-relative methods compare episodes of one task; set 2 "
                "or more"
            )
        for name in ("groups", "micro_rows", "passes", "score_rows", "max_row"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"data.sizes.{name} must be >= 1, got {value}")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a buffer comes from: the run's seed, the iteration, the weights' version and this process's place."""

    seed: int
    iteration: int
    policy_version: int
    pad_id: int
    world: int = 1


class RolloutBuffer(Dataset[tuple[Batch, Scores]]):
    """A sized, map-style dataset of micro-batches with their scores.

    The rows of a pass are permuted by ``derive(seed, "order", iteration, pass)`` and dealt to the updates as evenly as
    can be. Inside an update they are sorted by length before they are dealt to its micro-batches: the update is the
    same sum, with less padding. All ranks have the same number of updates; a micro-batch without
    a row is one zero-weight row. ``Batch.update`` counts over all micro-batches and ranks.

    Args:
        collated: rows and segments of this rank.
        sizes: see :class:`Sizes`.
        micro_batches: micro-batches per update and rank (the trainer's ``accumulate_grad_batches``).
        origin: see :class:`Origin`.
        stats: metrics of the collection.
        with_teacher: give hinted rows their teacher ids when scoring.
        teacher_in_update: and when training.
        reduce: adds or maximises an integer tensor over ranks; all ranks construct their buffers together.
    """

    def __init__(
        self,
        collated: Collated,
        sizes: Sizes,
        micro_batches: int,
        origin: Origin,
        stats: Mapping[str, float],
        *,
        with_teacher: bool = True,
        teacher_in_update: bool = False,
        reduce: Reduce = alone,
    ) -> None:
        self.rows, self.segments = collated.rows, collated.segments
        self.stats, self.origin, self.sizes = stats, origin, sizes
        self.policy_version, self.iteration = origin.policy_version, origin.iteration
        self.micro_batches, self.with_teacher = micro_batches, with_teacher
        self.teacher_in_update = teacher_in_update
        most = int(reduce(torch.tensor([len(self.rows)]), "max")[0])
        per_update = sizes.micro_rows * micro_batches
        self.updates = max(1, -(-most // per_update))
        self._plan = [part for number in range(sizes.passes) for part in self._pass(number)]
        flat = [[self.rows[r].trained for part in update for r in part] for update in self._plan]
        local = torch.tensor([[sum(trained), sum(n > 0 for n in trained)] for trained in flat], dtype=torch.int64)
        averaging = micro_batches * origin.world
        self._sizes = [Update(int(t), int(n), averaging) for t, n in reduce(local, "sum").tolist()]
        width = sizes.score_rows or sizes.micro_rows
        order = sorted(range(len(self.rows)), key=lambda r: (self.rows[r].teacher_length, r))
        self._score_plan = [order[i : i + width] for i in range(0, len(order), width)] or [[]]
        self._scores: list[tuple[Tensor | None, Tensor | None, Tensor | None]] = [(None, None, None)] * len(self.rows)
        self._advantages: list[Tensor | None] = [None] * len(self.rows)

    def _pass(self, number: int) -> list[list[list[int]]]:
        """Return, for one pass, the rows of each micro-batch of each update."""
        order = list(range(len(self.rows)))
        random.Random(derive(self.origin.seed, "order", self.iteration, number)).shuffle(order)  # noqa: S311
        return [
            _deal(sorted(part, key=lambda r: len(self.rows[r])), self.micro_batches)
            for part in _deal(order, self.updates)
        ]

    # -- scoring ---------------------------------------------------------------------------------------------------
    def score_batches(self) -> list[Batch]:
        """Return every row exactly once, in batches of about equal lengths; hinted rows carry their teacher row.

        Without any row there is one batch of one zero-weight row, so that every rank has a pass to make.
        """
        out = []
        for part in self._score_plan:
            rows = [self.rows[r] for r in part]
            update = Update(sum(row.trained for row in rows), sum(row.trained > 0 for row in rows))
            out.append(
                to_batch(
                    rows,
                    pad_id=self.origin.pad_id,
                    update=update,
                    policy_version=self.policy_version,
                    with_teacher=self.with_teacher,
                )
            )
        return out

    def set_scores(self, i: int, scores: Scores) -> None:
        """Keep the scores of the i-th scoring batch."""
        grids = [scores.old_logp, scores.teacher_logp, scores.reference_logp]
        self._check(i, scores.old_logp)
        for b, r in enumerate(self._score_plan[i]):
            n = len(self.rows[r])
            old, teacher, reference = (None if x is None else x[b, :n].detach().cpu().float() for x in grids)
            self._scores[r] = (old, teacher, reference)

    def set_segments(self, segments: Segments) -> None:
        """Replace the table, for example by the scored one."""
        if len(segments) != len(self.segments):
            raise ValueError(f"RolloutBuffer: the table has {len(self.segments)} segments, got {len(segments)}")
        self.segments = segments

    def set_advantages(self, i: int, advantages: Tensor) -> None:
        """Keep the per-token advantages, (B, T), of the i-th scoring batch."""
        self._check(i, advantages)
        for b, r in enumerate(self._score_plan[i]):
            self._advantages[r] = advantages[b, : len(self.rows[r])].detach().cpu().float()

    def _check(self, i: int, grid: Tensor) -> None:
        part = self._score_plan[i]
        shape = (max(1, len(part)), max((len(self.rows[r]) for r in part), default=1))
        if tuple(grid.shape) != shape:
            raise ValueError(f"RolloutBuffer: scoring batch {i} has shape {shape}, got {tuple(grid.shape)}")

    # -- training --------------------------------------------------------------------------------------------------
    def __len__(self) -> int:
        return self.sizes.passes * self.updates * self.micro_batches

    def __getitem__(self, index: int) -> tuple[Batch, Scores]:
        """Return a micro-batch and its scores; without credit its advantages are None, without scores they are NaN."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        update, micro = divmod(index, self.micro_batches)
        part = self._plan[update][micro]
        credit = [self._advantages[r] for r in part]
        known = [x for x in credit if x is not None]
        batch = to_batch(
            [self.rows[r] for r in part],
            pad_id=self.origin.pad_id,
            update=self._sizes[update],
            policy_version=self.policy_version,
            with_teacher=self.teacher_in_update,
            advantages=known if len(known) == len(part) else None,
        )
        kinds = [any(kept[k] is not None for kept in self._scores) for k in range(3)]
        old, teacher, reference = (self._grid(part, k, batch) if kinds[k] else None for k in range(3))
        blank = torch.full(batch.token_ids.shape, NAN)
        return batch, Scores(blank if old is None else old, teacher, reference)

    def _grid(self, part: list[int], kind: int, batch: Batch) -> Tensor:
        out = torch.full(batch.token_ids.shape, NAN)
        for b, r in enumerate(part):
            values = self._scores[r][kind]
            if values is not None:
                out[b, : len(values)] = values
        return out


def _deal(items: list[int], parts: int) -> list[list[int]]:
    """Cut a list into consecutive parts whose sizes differ by at most one."""
    small, extra = divmod(len(items), parts)
    cuts = [0]
    for p in range(parts):
        cuts.append(cuts[-1] + small + (p < extra))
    return [items[a:b] for a, b in pairwise(cuts)]
