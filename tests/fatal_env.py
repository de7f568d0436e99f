"""A word game whose process dies like one that runs out of memory: once, when the file that a variable names exists."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import ClassVar

from word_env import WordEnv

from sharpo.env import Observed
from sharpo.episode import Task


class DiesOnce(WordEnv):
    """Kills its process at one reset when the file that ``DIES_ONCE`` names exists, and removes the file."""

    resets: ClassVar[int] = 0

    def __init__(
        self, max_turns: int = 3, action_format: str = "plain", invalid_penalty: float = 0.1, at: int = 1
    ) -> None:
        super().__init__(max_turns, action_format, invalid_penalty)  # type: ignore[arg-type]
        self.at = at

    def _reset(self, task: Task, *, informed_oracle: bool) -> Observed:
        DiesOnce.resets += 1
        mark = Path(os.environ["DIES_ONCE"])
        if DiesOnce.resets == self.at and mark.exists():
            mark.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._reset(task, informed_oracle=informed_oracle)
