"""Successful attempts of earlier iterations, by task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sharpo.episode import Episode
from sharpo.errors import ConfigError


class Memory:
    """Keeps the last successful attempt at each of the ``size`` tasks that were solved last; the oldest goes first.

    What it holds depends on the order of :meth:`remember` alone, and :meth:`state` restores it exactly.

    Args:
        size: tasks.

    Example:
        >>> Memory(2).state()
        []
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ConfigError(f"hint.remember must be >= 1, got {size}")
        self.size = size
        self._kept: dict[str, Episode] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, task: str) -> Episode | None:
        """Return the attempt at a task by its id, None when there is none."""
        return self._kept.get(task)

    def remember(self, episodes: Iterable[Episode]) -> None:
        """Take successful episodes, in the order in which their tasks were scheduled."""
        for episode in episodes:
            self._kept.pop(episode.task.id, None)
            self._kept[episode.task.id] = slim(episode)
        for task in list(self._kept)[: max(0, len(self._kept) - self.size)]:
            del self._kept[task]

    def state(self) -> list[str]:
        """Return everything as JSON, oldest first."""
        return [episode.to_json() for episode in self._kept.values()]

    def restore(self, state: Sequence[str]) -> None:
        """Hold what :meth:`state` returned and nothing else."""
        self._kept = {}
        self.remember(Episode.from_json(text) for text in state)


def slim(episode: Episode) -> Episode:
    """Return the episode without token ids: the words of its turns and its outcome are what a hint shows."""
    bare = {"prompt_ids": (), "action_ids": (), "action_logp": (), "spans": {}, "hint_at": 0}
    return replace(episode, turns=tuple(replace(turn, **bare) for turn in episode.turns))
