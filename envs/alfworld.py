"""ALFWorld's own games: every folder of a split, sorted, each game once, in whichever command form it was written."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from sharpo.envs import lexicon
from sharpo.envs.native import cache
from sharpo.envs.native.engine import NativeGame
from sharpo.envs.oracle import Goal, TextGame
from sharpo.envs.scenes import GOALS
from sharpo.envs.textgames import Engine, TextGameEnv
from sharpo.envs.tw_parts import sentence

from sharpo.env import ActionFormat, Split
from sharpo.episode import Task
from sharpo.errors import ConfigError, DataError
from sharpo.seeding import derive

Folder = Literal["valid_seen", "valid_unseen"]
GAME = "game.tw-pddl"
_FAMILY_OF = {goal: family for family, goal in GOALS.items()}
_TAIL_BYTES = 4096


def _solvable(path: Path) -> bool:
    """Read the ``solvable`` flag from the end of a game file, where it stands; from the whole file otherwise."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        found = re.search(rb'"solvable": *(true|false)', file.read())
    if found is not None:
        return found.group(1) == b"true"
    return bool(json.loads(path.read_text(encoding="utf-8")).get("solvable"))


@functools.lru_cache(maxsize=16)
def games(folder: Path) -> tuple[str, ...]:
    """Return the games of a split as sorted relative paths; sliced, movable-receptacle and unsolvable ones left out."""
    found = []
    for path in folder.glob(f"*/*/{GAME}"):
        task = path.parent.parent.name
        if "movable" in task or "Sliced" in task or task.split("-")[0] not in _FAMILY_OF:
            continue
        if _solvable(path):
            found.append(path.parent.relative_to(folder).as_posix())
    return tuple(sorted(found))


class AlfWorld(TextGameEnv):
    """The games of ALFWorld (Shridhar et al. 2021) on the TextWorld engine, loaded once per process.

    Args:
        data: folder that holds ``train``, ``valid_seen`` and ``valid_unseen`` (or ``json_2.1.1`` with them inside);
            None for ``$ALFWORLD_DATA``, else ``~/.cache/alfworld``.
        val_split: the folder that ``val`` tasks come from.
        max_turns: turns until the episode is truncated.
        action_format: ``plain`` or ``tags``.
        invalid_penalty: subtracted from the return of a turn whose text held no action.
        reward: reward of the winning turn.
        engine: ``native`` (compiled games, plain Python) or ``textworld`` (TextWorld itself).

    Raises:
        ConfigError: a setting is unknown, or TextWorld or alfworld is not installed.
        DataError: the folder holds no games (when tasks are asked for).
    """

    def __init__(
        self,
        data: str | None = None,
        val_split: Folder = "valid_seen",
        max_turns: int = 50,
        action_format: ActionFormat = "tags",
        invalid_penalty: float = 0.0,
        reward: float = 10.0,
        engine: Engine = "native",
    ) -> None:
        super().__init__(max_turns, action_format, invalid_penalty, reward, engine)
        if val_split not in ("valid_seen", "valid_unseen"):
            raise ConfigError(f"env.val_split must be 'valid_seen' or 'valid_unseen', got {val_split!r}")
        root = Path(data or os.environ.get("ALFWORLD_DATA") or "~/.cache/alfworld").expanduser()
        self.root = root / "json_2.1.1" if (root / "json_2.1.1").is_dir() else root
        self.val_split = val_split

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
        return Task(task_id, _FAMILY_OF[kind], words, derive(0, task_id), {"game": name})

    def lexicon(self) -> tuple[str, ...]:
        """Return the words and phrases that cover every text of these games, longest first."""
        return lexicon.alfworld()

    def _folder(self, split: Split) -> str:
        return "train" if split == "train" else self.val_split

    def _games(self, folder: str) -> tuple[str, ...]:
        found = games(self.root / folder)
        if not found:
            games.cache_clear()
            raise DataError(
                f"no ALFWorld games in {self.root / folder}: run `alfworld-download` and set env.data "
                f"(or ALFWORLD_DATA) to the folder that holds {folder}/"
            )
        return found

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
