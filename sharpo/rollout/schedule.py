"""Which tasks an iteration plays, and what crosses from the data module to Lightning's hooks."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from sharpo.env import TextEnv
from sharpo.episode import Episode, Task
from sharpo.errors import ConfigError
from sharpo.seeding import derive


def training_tasks(env: TextEnv, iteration: int, groups: int, seed: int, rank: int = 0, world: int = 1) -> list[Task]:
    """Return this rank's tasks of an iteration: global numbers ``iteration * groups + j`` with ``j % world == rank``.

    An endless split is walked in order; a finite one in a permutation of its own for each pass over it. The few tasks
    that would not fill an iteration wait for a later pass, so no iteration plays a task twice.

    Args:
        env: knows its tasks.
        iteration: counts from 0.
        groups: tasks per iteration over all ranks.
        seed: the run's seed.
        rank: this process.
        world: number of processes.

    Raises:
        ConfigError: when ranks would differ in their number of groups, or the split has too few tasks.
    """
    if groups % world:
        raise ConfigError(f"data.sizes.groups={groups} cannot be shared by {world} processes; choose a multiple")
    known = check_groups(env, groups)
    first = iteration * groups
    order: list[int] | None = None
    if known is not None:
        cycle, place = divmod(iteration, known // groups)
        order, first = list(range(known)), place * groups
        random.Random(derive(seed, "tasks", cycle)).shuffle(order)  # noqa: S311
    numbers = range(first + rank, first + groups, world)
    return [env.task("train", number if order is None else order[number]) for number in numbers]


def check_groups(env: TextEnv, groups: int) -> int | None:
    """Return how many training tasks there are (None = endless).

    Raises:
        ConfigError: when there are fewer than an iteration plays.
    """
    known = env.num_tasks("train")
    if known is not None and groups > known:
        raise ConfigError(f"data.sizes.groups={groups}, but the train split has {known} tasks; lower it")
    return known


@dataclass(frozen=True, slots=True)
class PanelTasks:
    """One rank's share of a panel, before its episodes are played."""

    panel: str
    tasks: tuple[Task, ...]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> PanelTasks:
        """Return itself: nothing here lives on a device."""
        del device, non_blocking
        return self


@dataclass(frozen=True, slots=True)
class EpisodeBatch:
    """Episodes of a panel, played at the version that is being validated.

    Args:
        panel: name of the panel.
        episodes: this rank's episodes.
        policy_version: of the weights that played them.
        stats: metrics of the collection over all ranks.
    """

    panel: str
    episodes: tuple[Episode, ...]
    policy_version: int
    stats: Mapping[str, float] = field(default_factory=dict)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> EpisodeBatch:
        """Return itself: nothing here lives on a device."""
        del device, non_blocking
        return self
