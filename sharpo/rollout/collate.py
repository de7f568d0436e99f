"""Episodes to training rows and the Segments table; rows to batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sharpo.algorithms.base import Algorithm
from sharpo.batch import Batch, Update
from sharpo.episode import Episode, EpisodeGroup, Turn
from sharpo.errors import DataError
from sharpo.protocols import HintBuilder
from sharpo.segments import Segments

NAN = float("nan")
HINT_COUNTS: tuple[str, ...] = ("wanted", "built", "shortened", "too_long", "tokens")


@dataclass
class Row:
    """One training row: one or more consecutive turns of one episode, as lists of T values.

    ``hint`` is what the teacher sees before ``hint_at``; None = no teacher row. ``trained`` counts trained tokens.
    """

    hint_at: int
    token_ids: list[int] = field(default_factory=list)
    action: list[bool] = field(default_factory=list)
    span: list[bool] = field(default_factory=list)
    segment: list[int] = field(default_factory=list)
    behaviour: list[float] = field(default_factory=list)
    hint: tuple[int, ...] | None = None
    trained: int = 0

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def teacher_length(self) -> int:
        """Tokens of the row with its hint."""
        return len(self) + len(self.hint or ())

    def context(self, ids: Sequence[int]) -> None:
        """Append tokens that were not sampled."""
        n = len(ids)
        self.token_ids += ids
        self.action += [False] * n
        self.span += [False] * n
        self.segment += [-1] * n
        self.behaviour += [NAN] * n

    def act(self, turn: Turn, segment: int, span: tuple[int, int]) -> None:
        """Append the sampled tokens of a turn, masked out when it must not be trained on; ``span`` is its segment."""
        n = len(turn.action_ids)
        self.token_ids += turn.action_ids
        self.action += [turn.trainable] * n
        self.span += [turn.trainable and span[0] <= i < span[1] for i in range(n)]
        self.segment += [segment] * n
        self.behaviour += turn.action_logp or [NAN] * n
        self.trained += n * turn.trainable

    def extends_to(self, turn: Turn) -> bool:
        """Return True when the turn's prompt begins with this very row, token for token."""
        n = len(self)
        return (
            turn.hint_at == self.hint_at and len(turn.prompt_ids) >= n and list(turn.prompt_ids[:n]) == self.token_ids
        )


@dataclass(frozen=True)
class Collated:
    """Rows and segments of one rank and iteration, and sums that add up over ranks.

    Args:
        rows: what is trained on.
        segments: the table.
        hints: counts by :data:`HINT_COUNTS`.
        groups: ``seen``, ``dropped``, and for each of the algorithm's ``group_report_names`` the sum of its values
            (``name``) and their number (``name/n``).
    """

    rows: list[Row]
    segments: Segments
    hints: dict[str, float]
    groups: dict[str, float]


def turn_span(turn: Turn, name: str) -> tuple[int, int]:
    """Return the half-open token range of a segment inside its turn; (0, 0) for a turn without an action."""
    if turn.action is None:
        return (0, 0)
    return (0, len(turn.action_ids)) if name == "turn" else turn.spans.get(name, (0, 0))


def hinted_students(algorithm: Algorithm, size: int) -> frozenset[int]:
    """Return the members whose student row carries the hint: the last ``round(hinted_share * G)``.

    Example:
        >>> class Half(Algorithm):
        ...     hinted_share = 0.5
        >>> sorted(hinted_students(Half(), 4))
        [2, 3]
    """
    return frozenset(range(size - round(algorithm.hinted_share * size), size))


def rows_of(episode: Episode, first_segment: int, span: str, spliced: tuple[int, ...] = ()) -> list[Row]:
    """Cut an episode into rows: a turn joins the last row exactly when its prompt extends it token for token.

    Args:
        episode: the turns.
        first_segment: the segment number of its first turn.
        span: which part of a turn is the segment.
        spliced: ids of a hint to put into the student's own row.
    """
    rows: list[Row] = []
    for k, turn in enumerate(episode.turns):
        if rows and rows[-1].extends_to(turn):
            rows[-1].context(turn.prompt_ids[len(rows[-1]) :])
        else:
            rows.append(Row(turn.hint_at))
            rows[-1].context(turn.prompt_ids)
        rows[-1].act(turn, first_segment + k, turn_span(turn, span))
    if spliced:
        for row in rows:
            at, n = row.hint_at, len(spliced)
            row.token_ids[at:at] = spliced
            row.action[at:at] = row.span[at:at] = [False] * n
            row.segment[at:at] = [-1] * n
            row.behaviour[at:at] = [NAN] * n
    return rows


def collate(
    groups: Sequence[EpisodeGroup],
    algorithm: Algorithm,
    hints: HintBuilder,
    tokenize: Callable[[str], list[int]],
    max_row: int | None = None,
) -> Collated:
    """Turn groups into rows, teacher rows and the Segments table.

    Args:
        groups: this rank's groups.
        algorithm: says which hints are needed, the span and the base advantages.
        hints: builds the hint of an episode.
        tokenize: text to ids.
        max_row: longest row with its hint, in tokens; a hint is shortened to it or, when it cannot be, left out and
            counted.
    """
    rows: list[Row] = []
    columns: dict[str, list[int]] = {
        name: [] for name in ("group", "episode", "turn", "length", "success", "hinted", "selected")
    }
    base: list[Tensor] = []
    returns: list[float] = []
    counts: dict[str, float] = dict.fromkeys(HINT_COUNTS, 0.0)
    reports: list[dict[str, float]] = []
    g = episode_index = segment = 0
    for group in groups:
        reports.append(algorithm.group_report(group))
        if not algorithm.keeps(group):
            continue
        inside = hinted_students(algorithm, len(group.episodes))
        base.append(_checked_base(algorithm, group))
        for m, episode in enumerate(group.episodes):
            returns += [episode.episode_return] * len(episode.turns)
            hint = None
            plain = rows_of(episode, segment, algorithm.span)
            room = None if max_row is None else max(0, max_row - max(map(len, plain)))
            if m in inside or algorithm.needs_teacher:
                counts["wanted"] += 1
                hint = hints.build(group, m, tokenize, room)
            if hint is not None and (not hint.ids or (room is not None and len(hint.ids) > room)):
                counts["too_long"] += 1
                hint = None
            if hint is not None:
                counts["built"] += 1
                counts["shortened"] += hint.shortened
                counts["tokens"] += len(hint.ids)
            if hint is not None and m in inside:
                plain = rows_of(episode, segment, algorithm.span, hint.ids)
            hinted = hint is not None and m not in inside
            for row in plain:
                row.hint = hint.ids if hint is not None and hinted else None
            rows += plain
            for k, turn in enumerate(episode.turns):
                start, stop = turn_span(turn, algorithm.span)
                selected = hinted and stop > start and turn.trainable
                values = (g, episode_index, k, stop - start, episode.outcome.success, hinted, selected)
                for name, value in zip(columns, values, strict=True):
                    columns[name].append(value)
            episode_index += 1
            segment += len(episode.turns)
        g += 1
    tensors = {
        name: torch.tensor(values, dtype=torch.bool if name in ("success", "hinted", "selected") else torch.int64)
        for name, values in columns.items()
    }
    table = Segments(
        **tensors,
        episode_return=torch.tensor(returns, dtype=torch.float32),
        base=torch.cat(base) if base else torch.zeros(0),
    )
    return Collated(rows, table, counts, _group_counts(algorithm, reports, kept=g))


def _group_counts(algorithm: Algorithm, reports: Sequence[Mapping[str, float]], kept: int) -> dict[str, float]:
    counts = {"seen": float(len(reports)), "dropped": float(len(reports) - kept)}
    for name in algorithm.group_report_names:
        known = [report[name] for report in reports if report[name] == report[name]]
        counts |= {name: sum(known), f"{name}/n": float(len(known))}
    return counts


def _checked_base(algorithm: Algorithm, group: EpisodeGroup) -> Tensor:
    base = algorithm.base_advantages(group)
    turns = sum(len(episode.turns) for episode in group.episodes)
    if base.shape != (turns,):
        raise DataError(
            f"{type(algorithm).__name__}.base_advantages gave shape {tuple(base.shape)} for {turns} turns of "
            f"{group.task.id}; it must give one value for each turn"
        )
    return base.detach().to(torch.float32)


def to_batch(
    rows: Sequence[Row],
    *,
    pad_id: int,
    update: Update,
    policy_version: int,
    with_teacher: bool,
    advantages: Sequence[Tensor] | None = None,
) -> Batch:
    """Pad rows on the right into one batch; no row at all gives one zero-weight row of a single pad token.

    The teacher's row is the student's with the hint spliced in before ``hint_at``, aligned so that its last T columns
    are the student's T columns (padding included): column H + j is the student's j for every j from the splice on.

    Args:
        rows: B rows.
        pad_id: fills.
        update: global sizes of the update.
        policy_version: version of the weights that sampled the rows.
        with_teacher: add the teacher's rows when any row has a hint.
        advantages: one vector of T_row values per row; None = not yet credited.
    """
    rows = rows or [Row(0, [pad_id], [False], [False], [-1], [NAN])]
    b, t = len(rows), max(map(len, rows))
    attention = torch.arange(t) < torch.tensor([len(row) for row in rows])[:, None]

    def grid(name: str, filler: float | int | bool, dtype: torch.dtype) -> Tensor:
        out = torch.full((b, t), filler, dtype=dtype)
        for i, row in enumerate(rows):
            out[i, : len(row)] = torch.tensor(getattr(row, name), dtype=dtype)
        return out

    credited = None
    if advantages is not None:
        credited = torch.zeros(b, t)
        for i, values in enumerate(advantages):
            credited[i, : len(values)] = values
    teacher_ids = teacher_attention = None
    if with_teacher and any(row.hint is not None for row in rows):
        h = max(len(row.hint or ()) for row in rows)
        teacher_ids = torch.full((b, h + t), pad_id, dtype=torch.int64)
        teacher_attention = torch.zeros(b, h + t, dtype=torch.bool)
        for i, row in enumerate(rows):
            if row.hint is None:
                continue
            ids = [*row.token_ids[: row.hint_at], *row.hint, *row.token_ids[row.hint_at :]]
            start = h - len(row.hint)
            teacher_ids[i, start : start + len(ids)] = torch.tensor(ids)
            teacher_attention[i, start : start + len(ids)] = True
    return Batch(
        token_ids=grid("token_ids", pad_id, torch.int64),
        attention=attention,
        action_mask=grid("action", False, torch.bool),
        span_mask=grid("span", False, torch.bool),
        segment_index=grid("segment", -1, torch.int64),
        behaviour_logp=grid("behaviour", NAN, torch.float32),
        update=update,
        policy_version=policy_version,
        advantages=credited,
        teacher_token_ids=teacher_ids,
        teacher_attention=teacher_attention,
    )
