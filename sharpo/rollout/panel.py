"""A fixed panel of tasks on which a policy is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sharpo.env import Split, TextEnv
from sharpo.episode import Task
from sharpo.errors import ConfigError
from sharpo.ranges import Count, Natural, NonNegative, Within, check
from sharpo.seeding import fixed_order

MOST = 100_000
"""Most tasks of a panel: all of them are listed before the first is played."""


@dataclass(frozen=True, slots=True)
class Panel:
    """The same tasks at every validation.

    A finite split is taken in one fixed random order, the same for every panel and run: games that lie sorted by
    family on the disk would otherwise give a panel of their first families alone.

    Args:
        split: ``train``, ``val``, or one that the environment names (``valid_unseen`` of ALFWorld).
        tasks: number of tasks; None = all from ``first`` on of a finite split, each once.
        temperature: 0 is greedy.
        samples: episodes per task.
        first: place of the first task in that order.
    """

    split: Split = "val"
    tasks: Annotated[int, Within(1, MOST)] | None = None
    temperature: NonNegative = 1.0
    samples: Count = 1
    first: Natural = 0

    def __post_init__(self) -> None:
        check("panel", {name: getattr(self, name) for name in ("tasks", "temperature", "samples", "first")}, Panel)

    def check(self, env: TextEnv) -> tuple[int, int | None]:
        """Return the place after the last task, and how many tasks the split has (None = endless).

        Raises:
            ConfigError: when the environment has no such split, the split has too few tasks, or is endless and
                ``tasks`` is None.
        """
        env.check_split(self.split)
        known = env.num_tasks(self.split)
        if self.tasks is None and known is None:
            raise ConfigError(f"panel.tasks is null, but split {self.split!r} is endless; give a number")
        stop = known if self.tasks is None else self.first + self.tasks
        assert stop is not None
        if known is not None and self.first >= known:
            raise ConfigError(f"panel.first={self.first}: split {self.split!r} has {known} tasks; lower it")
        if known is not None and stop > known:
            raise ConfigError(
                f"panel.tasks={self.tasks}: split {self.split!r} has {known} tasks, "
                + (f"and first={self.first} leaves {known - self.first}; lower it" if self.first else "lower it")
            )
        return stop, known

    def select(self, env: TextEnv, rank: int = 0, world: int = 1) -> tuple[Task, ...]:
        """Return this rank's share: every ``world``-th task from ``first + rank`` on.

        Raises:
            ConfigError: see :meth:`check`.
        """
        stop, known = self.check(env)
        places = range(self.first + rank, stop, world)
        if known is None:
            return tuple(env.task(self.split, index) for index in places)
        order = fixed_order(self.split, known)
        return tuple(env.task(self.split, order[place]) for place in places)
