"""The benchmark family's own draw of validation tasks: one independent draw for each worker, with repeats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sharpo.env import Split, TextEnv
from sharpo.episode import Task
from sharpo.errors import ConfigError, DataError
from sharpo.ranges import Count, Natural, NonNegative, check

_NUMBERS = ("workers", "validation", "temperature", "seed", "samples")


def draws(games: int, workers: int, seed: int, validation: int) -> list[int]:
    """Return the place in the list of games that each worker plays at a validation, in the order of the workers.

    Worker ``w`` walks its own permutation of the list, shuffled by ``numpy.random.RandomState(seed + w)``, one game a
    validation, and shuffles it again when it is through.

    Args:
        games: length of the list.
        workers: how many.
        seed: of worker 0.
        validation: which one, counted from 0.

    Example:
        >>> [len(set(draws(140, 128, 1000, n))) for n in (0, 1)], [len(set(draws(134, 128, 1000, n))) for n in (0, 1)]
        ([91, 84], [74, 77])
    """
    cycle, place = divmod(validation, games)
    chosen = []
    for worker in range(workers):
        generator = np.random.RandomState(seed + worker)
        order = np.arange(games)
        for _ in range(cycle + 1):
            generator.shuffle(order)
        chosen.append(int(order[place]))
    return chosen


@dataclass(frozen=True, slots=True)
class WorkerDraw:
    """What the benchmark family plays at one of its validations: for comparison with published numbers alone.

    About two thirds of the games are there, some of them several times; another validation, and another order of the
    list, has other games. The number of distinct games depends on neither the list nor its order.

    Args:
        split: of the environment; finite.
        workers: environments, one task each.
        validation: which validation of a run, counted from 0. A run's own validations move on; a panel stays.
        temperature: 0 is greedy.
        order: file with the split's task ids (or the ends of them), one a line, as a directory walk listed them; None
            = sorted. It says which games are drawn.
        seed: of worker 0; the family's is the run's environment seed, 0, plus 1000.
        samples: episodes per worker.
    """

    split: Split = "valid_seen"
    workers: Count = 128
    validation: Natural = 0
    temperature: NonNegative = 0.4
    order: str | None = None
    seed: Natural = 1000
    samples: Count = 1

    def __post_init__(self) -> None:
        check("panel", {name: getattr(self, name) for name in _NUMBERS}, WorkerDraw)

    def check(self, env: TextEnv) -> list[int]:
        """Return the split's tasks in the order in which they are shuffled.

        Raises:
            ConfigError: when the environment has no such split, it is endless, or the seed is too large.
            DataError: when ``order`` does not list the split's tasks, each once.
        """
        if self.seed >= 2**32 - self.workers:
            raise ConfigError(f"panel.seed={self.seed}: must be below 2^32 - workers")
        env.check_split(self.split)
        known = env.num_tasks(self.split)
        if known is None:
            raise ConfigError(f"panel: split {self.split!r} is endless, so no list of it can be shuffled")
        return self._listed(env, known)

    def select(self, env: TextEnv, rank: int = 0, world: int = 1) -> tuple[Task, ...]:
        """Return this rank's share: every ``world``-th distinct task with its repeats, which differ by their seeds.

        Raises:
            ConfigError: see :meth:`check`.
            DataError: see :meth:`check`.
        """
        listed = self.check(env)
        drawn = [listed[place] for place in draws(len(listed), self.workers, self.seed, self.validation)]
        mine = set(list(dict.fromkeys(drawn))[rank::world])
        tasks = {index: env.task(self.split, index) for index in mine}
        return tuple(tasks[index] for index in drawn if index in mine)

    def _listed(self, env: TextEnv, known: int) -> list[int]:
        if self.order is None:
            return list(range(known))
        path = Path(self.order).expanduser()
        try:
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        except OSError as error:
            raise DataError(f"panel.order={self.order} cannot be read ({error.strerror}): give another file") from error
        place = {env.task(self.split, index).id: index for index in range(known)}
        short = {name.partition(f"/{self.split}/")[2]: index for name, index in place.items()}
        found = [place.get(line, short.get(line)) for line in lines]
        if None in found or len(found) != known or len(set(found)) != known:
            strange = next((line for line, at in zip(lines, found, strict=True) if at is None), None)
            what = f"{strange!r} is none of them" if strange else f"it lists {len(set(found))} of {known}"
            raise DataError(f"panel.order={self.order} must list the tasks of {self.split!r}, each once: {what}")
        return [index for index in found if index is not None]
