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
    """Kills its process at the reset whose number stands in the file ``DIES_ONCE`` names, and removes the file."""

    resets: ClassVar[int] = 0

    def _reset(self, task: Task, *, informed_oracle: bool) -> Observed:
        DiesOnce.resets += 1
        mark = Path(os.environ["DIES_ONCE"])
        if mark.exists() and DiesOnce.resets == int(mark.read_text()):
            mark.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._reset(task, informed_oracle=informed_oracle)
