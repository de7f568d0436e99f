"""Episodes that people play in a browser: the text environment's own, each kept under a name that cannot be guessed."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from sharpo.envs.webshop.env import WebShop
from sharpo.envs.webshop.pages import Node, Session

from sharpo.env import Split
from sharpo.episode import Task
from sharpo.errors import ConfigError

ALL: Split = "all"
"""Every goal by its number in the benchmark's shuffled list, whatever the splits."""
MOST_PLAYS = 1000
IDLE_SECONDS = 12 * 3600.0
KEY_BYTES = 24
LARGEST_DIGITS = 18


def whole(text: str, name: str) -> int:
    """Return a number that a person typed.

    Raises:
        ConfigError: it is not a whole number from 0 on, of at most 18 digits.

    Example:
        >>> whole(" 7 ", "goal number")
        7
    """
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= LARGEST_DIGITS):
        raise ConfigError(f"{name} must be a whole number from 0 on, got {text[:40]!r}")
    return int(text)


class Goals:
    """The goals that can be chosen, by split and number.

    Args:
        env: over the catalogue; it is reset whenever a goal is looked up.
    """

    def __init__(self, env: WebShop) -> None:
        self._env = env
        self.counts: dict[Split, int] = {ALL: len(env.catalogue.table(env.kind))}
        """How many goals each split has; a split that the catalogue is too small for is not there."""
        self.refused: dict[Split, ConfigError] = {}
        for split in env.splits:
            try:
                self.counts[split] = env.num_tasks(split)
            except ConfigError as error:
                self.refused[split] = error

    def check(self, split: Split) -> None:
        """Refuse a split that this catalogue cannot give.

        Raises:
            ConfigError: there is no such split, the catalogue is too small for it, or it has no goals.
        """
        if split in self.refused:
            raise self.refused[split]
        if not self.counts.get(split):
            known = ", ".join(name for name, count in self.counts.items() if count) or "none"
            raise ConfigError(f"split {split[:40]!r} has no {self._env.kind} goals here; splits with goals: {known}")

    def task(self, split: Split, number: int) -> Task:
        """Return a goal of a split as a task.

        Raises:
            ConfigError: there is no such split or number.
        """
        self.check(split)
        count = self.counts[split]
        if not 0 <= number < count:
            raise ConfigError(f"goal number {number}: {split} has {count:,} goals, numbers 0 to {count - 1}")
        if split != ALL:
            return self._env.task(split, number)
        self._env.reset(options={"goal_idx": number, "informed_oracle": None})
        assert self._env.current_task is not None
        return self._env.current_task

    def draw(self, split: Split, seed: int) -> int:
        """Return the goal number that a seed draws; of ``train``, the one that ``reset(seed=seed)`` plays."""
        self.check(split)
        return int(np.random.default_rng(seed).integers(self.counts[split]))


@dataclass
class Play:
    """One person's episode.

    Args:
        key: its secret name.
        env: that is played; it begins the task at once, without an oracle.
        task: the goal.
        split: it was chosen from.
        number: in that split.
    """

    key: str
    env: WebShop
    task: Task
    split: Split
    number: int
    text: str = field(init=False)
    admissible: tuple[str, ...] = field(init=False)
    actions: list[str] = field(default_factory=list)
    earned: float = 0.0
    changed: bool = True
    ended: Literal["", "purchase", "turn limit"] = ""
    touched: float = 0.0

    def __post_init__(self) -> None:
        self.text, info = self.env.reset(options={"task": self.task, "informed_oracle": None})
        self.admissible = info["admissible"]

    @property
    def session(self) -> Session:
        """Where the shopper is."""
        return self.env.snapshot().session

    @property
    def nodes(self) -> list[Node]:
        """What the page shows."""
        return self.env.store.nodes(self.session)

    def act(self, action: str) -> None:
        """Play one turn of the text environment.

        Raises:
            ConfigError: the episode is over.
        """
        if self.ended:
            raise ConfigError(f"this goal is over ({self.ended}), nothing more can be done: choose another goal")
        self.text, reward, done, truncated, info = self.env.step(action)
        self.actions.append(action)
        self.admissible, self.changed = info["admissible"], bool(info["changed"])
        self.earned += reward
        self.ended = "purchase" if done else "turn limit" if truncated else ""


class Plays:
    """The episodes under way; the longest idle one makes room when there are too many.

    Args:
        make: an environment for each.
        most: episodes that are kept.
        idle: seconds after which one that nobody touched is forgotten.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        make: Callable[[], WebShop],
        most: int = MOST_PLAYS,
        idle: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make, self.most, self.idle, self._clock = make, most, idle, clock
        self._plays: OrderedDict[str, Play] = OrderedDict()

    def start(self, task: Task, split: Split, number: int) -> Play:
        """Begin a goal and return the episode."""
        self._forget()
        while len(self._plays) >= self.most:
            self._plays.popitem(last=False)
        play = Play(secrets.token_urlsafe(KEY_BYTES), self._make(), task, split, number, touched=self._clock())
        self._plays[play.key] = play
        return play

    def find(self, key: str) -> Play | None:
        """Return an episode by its name, None when there is none or it was forgotten."""
        self._forget()
        play = self._plays.get(key)
        if play is not None:
            play.touched = self._clock()
            self._plays.move_to_end(key)
        return play

    def _forget(self) -> None:
        while self._plays and self._clock() - next(iter(self._plays.values())).touched > self.idle:
            self._plays.popitem(last=False)


def settings(play: Play) -> dict[str, Any]:
    """Return what a page tells of an episode apart from its text."""
    return {
        "split": play.split,
        "number": play.number,
        "task": play.task.id,
        "family": play.task.family,
        "turn": len(play.actions),
        "max_turns": play.env.max_turns,
    }
