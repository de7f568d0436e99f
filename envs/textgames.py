"""What household and alfworld share: a TextEnv over TextWorld games, each loaded once per process, played by many."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, ClassVar

from sharpo.envs.games import NOTHING, Game, Node
from sharpo.envs.oracle import Floor, Goal, advise, view
from sharpo.envs.scenes import FAMILIES
from sharpo.envs.tw_parts import require_textworld

from sharpo.env import ActionFormat, Answer, Observed, TextEnv
from sharpo.episode import Outcome, Task
from sharpo.errors import ConfigError

GAMES_KEPT = 64
"""Loaded games that one process keeps; the least recently begun one goes first."""
_loaded: OrderedDict[tuple[str, str], tuple[Game, Floor]] = OrderedDict()


class TextGameEnv(TextEnv):
    """A household text game: TextWorld's own text and rules, 10 on success, success only from the engine's ``won``.

    Args:
        max_turns: turns until the episode is truncated.
        action_format: ``plain`` or ``tags``.
        invalid_penalty: subtracted from the return of a turn whose text held no action.
        reward: reward of the winning turn.
    """

    families: ClassVar[tuple[str, ...]] = FAMILIES

    def __init__(
        self, max_turns: int, action_format: ActionFormat = "tags", invalid_penalty: float = 0.0, reward: float = 10.0
    ) -> None:
        super().__init__(max_turns, action_format, invalid_penalty)
        if reward <= 0:
            raise ConfigError(f"env.reward must be above 0, got {reward}: it is what the winning turn earns")
        require_textworld()
        self.reward = reward
        self._floor: Floor | None = None
        self._node: Node | None = None
        self._seen: frozenset[str] | None = None

    @abstractmethod
    def _game_data(self, task: Task) -> Mapping[str, Any]:
        """Return the task's game: ``pddl_domain``, ``grammar``, ``pddl_problem``."""

    @abstractmethod
    def _goal(self, task: Task) -> Goal:
        """Return what the task asks for, as data."""

    def _load(self, task: Task) -> tuple[Game, Floor]:
        key = (task.id, repr(sorted(task.payload.items())))
        found = _loaded.get(key)
        if found is None:
            game = Game(self._game_data(task))
            found = _loaded[key] = (game, Floor(game, self._goal(task)))
            while len(_loaded) > GAMES_KEPT:
                _loaded.popitem(last=False)
        _loaded.move_to_end(key)
        return found

    def _reset(self, task: Task, *, informed_oracle: bool) -> Observed:
        game, self._floor = self._load(task)
        self._node = game.root
        self._seen = None if informed_oracle else frozenset()
        return self._observe(game.intro)

    def _step(self, action: str) -> Answer:
        assert self._floor is not None
        assert self._node is not None
        text, node = self._floor.game.step(self._node, action.strip())
        self._node, won = node, node.won
        return Answer(
            self._observe(text),
            reward=self.reward if won else 0.0,
            done=won,
            info={"won": won, "changed": text != NOTHING},
        )

    def _observe(self, text: str) -> Observed:
        assert self._floor is not None
        assert self._node is not None
        if self._seen is not None:
            shown = view(self._floor, self._node).shown()
            if not shown <= self._seen:
                self._seen |= shown
        return Observed(text, self._node.admissible, advise(self._floor, self._node, self._seen))

    def outcome(self) -> Outcome:
        """Return the verdict so far: success and score come from the engine's ``won`` alone."""
        won = self._node is not None and self._node.won
        truncated = not won and self._turns >= self.max_turns
        return Outcome(won, float(won), won, truncated, "turn_limit" if truncated else "done")
