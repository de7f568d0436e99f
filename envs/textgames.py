"""What household and alfworld share: a TextEnv over compiled games, each loaded once per process, played by many."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar, Literal

from sharpo.envs.native import cache
from sharpo.envs.native.engine import NOTHING
from sharpo.envs.oracle import Floor, Goal, TextGame, View, advise
from sharpo.envs.scenes import FAMILIES
from sharpo.envs.tw_parts import require_textworld

from sharpo.env import ActionFormat, Answer, Observed, TextEnv
from sharpo.episode import Outcome, Task
from sharpo.errors import ConfigError

Engine = Literal["native", "textworld"]
_loaded: OrderedDict[tuple[str, bool, str, str], Floor] = OrderedDict()
_loading = Lock()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment of an episode: what is needed to go on from it, any number of times; none of it ever changes.

    Args:
        task: what is played.
        state: the engine's state.
        options: its admissible commands.
        turns: turns taken.
        observed: what was shown last.
        seen: receptacles that the exploring expert has been shown; None for the informed one.
        asks_oracle: whether the oracle is computed.
    """

    task: Task
    state: Any
    options: Mapping[str, Any]
    turns: int
    observed: Observed
    seen: frozenset[str] | None
    asks_oracle: bool


class TextGameEnv(TextEnv):
    """A household text game: TextWorld's text and rules, 10 on success, success only from the engine's ``won``.

    Args:
        max_turns: turns until the episode is truncated.
        action_format: ``plain`` or ``tags``.
        invalid_penalty: subtracted from the return of a turn whose text held no action.
        reward: reward of the winning turn.
        engine: ``native`` plays compiled games in plain Python, ``textworld`` TextWorld itself (cached; to compare).
        strict: an action that the game does not accept counts as invalid, like a text without an action.
    """

    open_first = False
    """The exploring expert looks at what stands open before it opens anything."""
    families: ClassVar[tuple[str, ...]] = FAMILIES
    no_effect: ClassVar[str | None] = NOTHING

    def __init__(
        self,
        max_turns: int,
        action_format: ActionFormat = "tags",
        invalid_penalty: float = 0.0,
        reward: float = 10.0,
        engine: Engine = "native",
        strict: bool = False,
    ) -> None:
        super().__init__(max_turns, action_format, invalid_penalty)
        if reward <= 0:
            raise ConfigError(f"env.reward must be above 0, got {reward}: it is what the winning turn earns")
        if engine not in ("native", "textworld"):
            raise ConfigError(f"env.engine must be 'native' or 'textworld', got {engine!r}")
        self.reward, self.engine, self.strict = reward, engine, strict
        self._floor: Floor | None = None
        self._state: Any = None
        self._options: Mapping[str, Any] = {}
        self._won = False
        self._seen: frozenset[str] | None = None

    @abstractmethod
    def _game_data(self, task: Task) -> Mapping[str, Any]:
        """Return the task's game: ``pddl_domain``, ``grammar``, ``pddl_problem``."""

    @abstractmethod
    def _goal(self, task: Task) -> Goal:
        """Return what the task asks for, as data."""

    def _native(self, task: Task) -> TextGame:
        """Return the task's game for the native engine."""
        return cache.in_memory(self._game_data(task))

    def _load(self, task: Task) -> Floor:
        key = (self.engine, self.open_first, task.id, repr(sorted(task.payload.items())))
        with _loading:  # compiling, and TextWorld itself, are not for threads
            found = _loaded.get(key)
            if found is None:
                if self.engine == "native":
                    game = self._native(task)
                else:
                    require_textworld()
                    from sharpo.envs.games import Game

                    game = Game(self._game_data(task))
                found = _loaded[key] = Floor(game, self._goal(task), self.open_first)
                while len(_loaded) > cache.GAMES_KEPT:
                    _loaded.popitem(last=False)
            _loaded.move_to_end(key)
        return found

    def _reset(self, task: Task, *, informed_oracle: bool) -> Observed:
        floor = self._floor = self._load(task)
        self._seen = None if informed_oracle else frozenset()
        return self._observe(floor.game.intro, floor.game.start)

    def _step(self, action: str) -> Answer:
        assert self._floor is not None
        option = self._options.get(action.strip())
        if option is None:
            info = {"won": self._won, "changed": False, "invalid": self.strict}
            return Answer(self._observed_again(NOTHING), done=self._won, info=info)
        text, state = self._floor.game.play(self._state, option)
        observed = self._observe(text, state)
        reward = self.reward if self._won else 0.0
        return Answer(observed, reward, self._won, {"won": self._won, "changed": text != NOTHING})

    def _observed_again(self, text: str) -> Observed:
        return Observed(text, self._observed.admissible, self._observed.oracle)

    def _observe(self, text: str, state: Any) -> Observed:
        assert self._floor is not None
        game = self._floor.game
        self._state, self._options, self._won = state, game.options(state), game.won(state)
        admissible = tuple(command for command in self._options if command != "help")
        if not self.asks_oracle:
            return Observed(text, admissible)
        now = View(self._floor, state, self._options)
        if self._seen is not None:
            self._seen |= now.shown()
        return Observed(text, admissible, advise(now, self._seen))

    def snapshot(self) -> Snapshot:
        """Return this moment of the episode; microseconds, since nothing is copied.

        Raises:
            RuntimeError: before the first reset.
        """
        if self.current_task is None:
            raise RuntimeError(f"{type(self).__name__}.snapshot was called before reset")
        return Snapshot(
            self.current_task,
            self._state,
            self._options,
            self._turns,
            self._observed,
            self._seen,
            self.asks_oracle,
        )

    def restore(self, moment: Snapshot) -> None:
        """Go to a moment of this or of another environment's episode, and play on from there."""
        if moment.task is not self.current_task:
            self._floor = self._load(moment.task)
        self.current_task, self._turns = moment.task, moment.turns
        self._observed, self._seen, self.asks_oracle = moment.observed, moment.seen, moment.asks_oracle
        assert self._floor is not None
        self._state, self._options = moment.state, moment.options
        self._won = self._floor.game.won(moment.state)

    def outcome(self) -> Outcome:
        """Return the verdict so far: success and score come from the engine's ``won`` alone."""
        won = self._won
        truncated = not won and self._turns >= self.max_turns
        return Outcome(won, float(won), won, truncated, "turn_limit" if truncated else "done")
