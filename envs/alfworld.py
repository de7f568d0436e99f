"""ALFWorld's own games: every folder of a split, sorted, each game once, in whichever command form it was written."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from sharpo.envs import lexicon
from sharpo.envs.native import cache
from sharpo.envs.native.engine import NativeGame
from sharpo.envs.native.release import FAMILY_OF, GAME, find, games
from sharpo.envs.oracle import Goal, TextGame
from sharpo.envs.textgames import Engine, TextGameEnv
from sharpo.envs.tw_parts import sentence

from sharpo.env import ActionFormat, Split
from sharpo.episode import Task
from sharpo.errors import ConfigError, DataError
from sharpo.seeding import derive, fixed_order

Folder = Literal["valid_seen", "valid_unseen"]


@functools.lru_cache(maxsize=4)
def _chosen(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return the first ``count`` games of one fixed random order, sorted."""
    if count > len(names):
        raise ConfigError(f"env.train_games={count}: there are {len(names)} training games; lower it or set null")
    return tuple(names[place] for place in sorted(fixed_order("train", len(names))[:count]))


class AlfWorld(TextGameEnv):
    """The games of ALFWorld (Shridhar et al. 2021), compiled once per machine and loaded once per process.

    Args:
        data: folder that holds ``train``, ``valid_seen`` and ``valid_unseen`` (or ``json_2.1.1`` with them inside);
            None for ``$ALFWORLD_DATA``, else ``~/.cache/alfworld``.
        val_split: the folder that ``val`` tasks come from; the folders are splits of their own too.
        max_turns: turns until the episode is truncated.
        action_format: ``plain`` or ``tags``.
        invalid_penalty: subtracted from the return of a turn whose text held no action.
        reward: reward of the winning turn.
        engine: ``native`` (compiled games, plain Python) or ``textworld`` (TextWorld itself).
        strict: an action that the game does not accept counts as invalid, like a text without an action.
        train_games: train on so many games alone, the first of one fixed random order (a game that is not compiled yet
            takes a second or two); None for all.
        open_first: the exploring expert looks at what stands open before it opens anything; else in listed order.

    Raises:
        ConfigError: a setting is unknown, or TextWorld or alfworld is not installed.
        DataError: the folder holds no games (when tasks are asked for).
    """

    splits: ClassVar[tuple[str, ...]] = ("train", "val", "valid_seen", "valid_unseen")

    def __init__(
        self,
        data: str | None = None,
        val_split: Folder = "valid_seen",
        max_turns: int = 50,
        action_format: ActionFormat = "tags",
        invalid_penalty: float = 0.0,
        reward: float = 10.0,
        engine: Engine = "native",
        strict: bool = False,
        train_games: int | None = None,
        open_first: bool = False,
    ) -> None:
        super().__init__(max_turns, action_format, invalid_penalty, reward, engine, strict)
        if train_games is not None and train_games < 1:
            raise ConfigError(f"env.train_games must be at least 1 or null, got {train_games}")
        if val_split not in ("valid_seen", "valid_unseen"):
            raise ConfigError(f"env.val_split must be 'valid_seen' or 'valid_unseen', got {val_split!r}")
        self.root = find(data)
        self.val_split = val_split
        self.train_games, self.open_first = train_games, open_first

    def num_tasks(self, split: Split) -> int:
        """Return how many games a split has."""
        return len(self._games(self._folder(split)))

    def task(self, split: Split, index: int) -> Task:
        """Return game ``index`` of the sorted split; its family is the folder's."""
        folder = self._folder(split)
        names = self._games(folder)
        if not 0 <= index < len(names):
            raise ConfigError(f"env.task: {folder} has {len(names)} games, so there is no game {index}")
        name = f"{folder}/{names[index]}"
        kind = names[index].split("-")[0]
        words = sentence(self._read(name)["grammar"])
        task_id = f"alfworld/{name}"
        return Task(task_id, FAMILY_OF[kind], words, derive(0, task_id), {"game": name})

    def lexicon(self) -> tuple[str, ...]:
        """Return the words and phrases that cover every text of these games, longest first."""
        return lexicon.alfworld()

    def _folder(self, split: Split) -> str:
        self.check_split(split)
        return self.val_split if split == "val" else split

    def _games(self, folder: str) -> tuple[str, ...]:
        found = games(self.root / folder)
        if not found:
            games.cache_clear()
            raise DataError(
                f"no ALFWorld games in {self.root / folder}: run `python -m sharpo.data alfworld download`, or set "
                f"env.data (or ALFWORLD_DATA) to the folder that holds {folder}/"
            )
        return found if folder != "train" or self.train_games is None else _chosen(found, self.train_games)

    def _bytes(self, name: str) -> bytes:
        path = self.root / name / GAME
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise DataError(
                f"ALFWorld game {path} is not there: set env.data (or ALFWORLD_DATA) to the folder it was played from"
            ) from None

    def _read(self, name: str) -> Mapping[str, Any]:
        return json.loads(self._bytes(name))

    def _game_data(self, task: Task) -> Mapping[str, Any]:
        return self._read(task.payload["game"])

    def _native(self, task: Task) -> TextGame:
        return NativeGame(cache.compiled(self._bytes(task.payload["game"]), json.loads))

    def _goal(self, task: Task) -> Goal:
        _, target, _, destination, _ = task.payload["game"].split("/")[1].split("-")
        return Goal(task.family, target, destination)
