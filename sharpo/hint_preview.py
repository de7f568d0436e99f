"""What does the teacher see? Prints, for a saved group, every member's hint in its place, with token counts.

Run: ``python -m sharpo.hint_preview EPISODES.jsonl [--task ID] [--member N] [train.py overrides]``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sharpo.episode import EpisodeGroup
from sharpo.errors import ConfigError, DataError
from sharpo.protocols import Hint, HintBuilder
from sharpo.rollout import store
from sharpo.rollout.collate import Row, collate

OPEN, CLOSE = "⟦", "⟧"
AROUND = 240


@dataclass
class Recorder:
    """Passes every request on to a hint builder and keeps what came back, with the room that there was."""

    hint: HintBuilder
    built: dict[int, tuple[Hint | None, int | None]] = field(default_factory=dict)

    def build(
        self, group: EpisodeGroup, member: int, tokenize: Callable[[str], list[int]], room: int | None = None
    ) -> Hint | None:
        """Return the builder's hint."""
        hint = self.hint.build(group, member, tokenize, room)
        self.built[member] = hint, room
        return hint


def preview(parts: Any, group: EpisodeGroup, member: int | None = None, whole: bool = False) -> str:
    """Return what the teacher sees of a group, as collate makes it for training.

    Args:
        parts: a built run (``sharpo.cli.Parts``).
        group: the episodes.
        member: only this place in the group; None = all.
        whole: print every row from end to end, not only around the splice of the first.

    Raises:
        ConfigError: when the method never asks for a hint, or leaves this group out.
        DataError: when the episodes were written with another tokenizer, or there is no such member.
    """
    data, algorithm = parts.data(), parts.algorithm
    renderer, size = data.renderer, len(group.episodes)
    if member is not None and not 0 <= member < size:
        raise DataError(f"--member {member}: the group has members 0 to {size - 1}")
    if not algorithm.reads_hint:
        raise ConfigError(f"{type(algorithm).__name__} never asks for a hint: choose algorithm=sharpo, for example")
    _check_tokenizer(renderer, group)
    recorder = Recorder(data.hint)
    limit = data.sizes.max_row if data.sizes.max_row is not None else parts.plain["engine"].get("max_context")
    collated = collate([group], algorithm, recorder, renderer.tokenize, limit)
    if not collated.rows:
        raise ConfigError(f"{type(algorithm).__name__} leaves this group out (its episodes have the same return)")
    rows: dict[int, list[Row]] = {i: [] for i in range(size)}
    for row in collated.rows:
        segment = next(index for index in row.segment if index >= 0)
        rows[int(collated.segments.episode[segment])].append(row)
    solved = sum(episode.outcome.success for episode in group.episodes)
    lines = [
        f"{group.task.id} [{group.task.family}] {group.task.instruction}",
        f"{size} episodes of policy version {group.episodes[0].policy_version}, {solved} solved; "
        f"{type(data.hint).__name__} for {type(algorithm).__name__}; rows up to {limit or 'any number of'} tokens",
    ]
    for i in range(size) if member is None else [member]:
        lines += ["", *_member(renderer, group, i, rows[i], recorder, whole)]
    return "\n".join(lines)


def _check_tokenizer(renderer: Any, group: EpisodeGroup) -> None:
    for episode in group.episodes:
        for turn in episode.turns:
            if renderer.text(turn.action_ids) != turn.text:
                raise DataError(
                    f"{group.task.id}: the tokenizer of {renderer.path} reads {renderer.text(turn.action_ids)!r} where "
                    f"the episode says {turn.text!r}; give the experiment and the model that played it"
                )


def _member(
    renderer: Any, group: EpisodeGroup, i: int, rows: Sequence[Row], recorder: Recorder, whole: bool
) -> list[str]:
    episode = group.episodes[i]
    verdict = "solved" if episode.outcome.success else f"not solved ({episode.outcome.reason})"
    head = f"member {i}: {verdict}, {len(episode.turns)} turn(s) in {len(rows)} row(s)"
    hint, room = recorder.built.get(i, (None, None))
    if i not in recorder.built:
        return [f"{head}; no hint: this method asks for none here"]
    if hint is None:
        reason = getattr(recorder.hint, "absent", "there is nothing to show")
        return [f"{head}; no hint: {reason}"]
    budget = min(value for value in (getattr(recorder.hint, "max_tokens", None), room) if value is not None)
    if not hint.ids or (room is not None and len(hint.ids) > room):
        return [f"{head}; no hint: nothing of {hint.source} fits into {budget} tokens, it is left out"]
    size, longest = len(hint.ids), max(map(len, rows))
    inside = rows[0].hint is None  # spliced into the student's own row
    student = longest - size if inside else longest
    lines = [
        f"{head}; hint {hint.source}{', in front of the student too' if inside else ''}",
        f"  tokens: student {student}, hint {size}, together {student + size}; budget of the hint {budget}, "
        f"{'shortened to it by rule' if hint.shortened else 'not shortened'}",
    ]
    for n, row in enumerate(rows if whole else rows[:1]):
        at = row.hint_at
        after = row.token_ids[at + size :] if inside else row.token_ids[at:]
        before, shown, rest = (renderer.decode(ids) for ids in (row.token_ids[:at], hint.ids, after))
        if not whole:
            before = before if len(before) <= AROUND else "… " + before[-AROUND:]
            rest = rest if len(rest) <= AROUND else rest[:AROUND] + " …"
        lines += [f"  row {n + 1}, spliced in before its token {at}:", f"{before}{OPEN}{shown}{CLOSE}{rest}"]
    return lines


def find(groups: Sequence[EpisodeGroup], task: str | None) -> EpisodeGroup:
    """Return the group of a task, or the first one.

    Raises:
        DataError: when there is none.
    """
    for group in groups:
        if task is None or group.task.id == task:
            return group
    raise DataError(f"--task {task}: not there; the file has {', '.join(group.task.id for group in groups)}")


def load(path: str) -> list[EpisodeGroup]:
    """Read the groups of a file that a run with ``data.save_rollouts`` wrote.

    Raises:
        DataError: when it holds none.
    """
    loaded = store.load(path)
    if not loaded or any(len(episodes) < 2 for episodes in loaded):
        raise DataError(f"{path}: a group has at least two episodes; give a file of data.save_rollouts")
    return [EpisodeGroup(episodes[0].task, tuple(episodes)) for episodes in loaded]


def main() -> None:
    """Parse the command line and print."""
    from sharpo import cli

    parser = argparse.ArgumentParser(
        prog="python -m sharpo.hint_preview",
        description="Prints, for one group that a run with data.save_rollouts=FOLDER saved, what the teacher sees of "
        "each member: the hint between ⟦ and ⟧ in the student's own tokens, where it came from, and token counts. Give "
        "the settings of that run; with another hint=... you see what that one would show.",
    )
    parser.add_argument("episodes", metavar="EPISODES.jsonl", help="for example FOLDER/iteration_00000_rank0.jsonl")
    parser.add_argument("--task", metavar="ID", help="which group, by its task (default: the first)")
    parser.add_argument("--member", type=int, metavar="N", help="only this member, counted from 0")
    parser.add_argument("--whole", action="store_true", help="every row from end to end")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE",
                        help="as for train.py, for example experiment=household_demo hint=contrast")  # fmt: skip
    arguments = parser.parse_intermixed_args()

    def run(cfg: Any) -> None:
        group = find(load(arguments.episodes), arguments.task)
        print(preview(cli.Parts(cfg), group, arguments.member, arguments.whole))  # noqa: T201

    sys.argv = [sys.argv[0], *arguments.overrides]
    cli.main(run)


if __name__ == "__main__":
    main()
