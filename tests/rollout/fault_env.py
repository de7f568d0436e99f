"""An environment that counts, and raises, hangs, dies or floods when its task says so; imported by worker processes."""

import os
import sys
import time
from pathlib import Path
from typing import ClassVar

from sharpo.env import Answer, Observed, TextEnv
from sharpo.episode import Outcome, Task
from sharpo.errors import DataError


def task(name, fault="", at=2, mark=None):
    return Task(f"fault/train/{name}", "count", "count", 0, {"fault": fault, "at": at, "mark": mark})


class FaultEnv(TextEnv):
    families: ClassVar[tuple[str, ...]] = ("count",)

    def __init__(self, max_turns=6, broken=False):
        super().__init__(max_turns, "plain")
        if broken:
            raise DataError("the games are not here: fetch them")
        self.history = []

    def num_tasks(self, split):
        return 1

    def task(self, split, index):
        return task(str(index))

    def _reset(self, task, *, informed_oracle):
        self.history = ["informed"] if informed_oracle else []
        self._fault(0)
        return self._shown()

    def _shown(self):
        assert self.current_task is not None
        return Observed(f"{self.current_task.id} {' '.join(self.history)}", ("a", "b"), "a")

    def _fault(self, now):
        payload = self.current_task.payload
        if now != payload["at"]:
            return
        if payload["fault"] == "raise":
            raise ValueError("planted " + "x" * 2000)
        if payload["fault"] == "hang":
            time.sleep(3600)
        if payload["fault"] == "die":
            os._exit(7)
        if payload["fault"] == "die once" and not Path(payload["mark"]).exists():
            Path(payload["mark"]).touch()
            os._exit(7)

    def _step(self, action):
        self.history.append(action)
        if action == "modules":
            return Answer(Observed(" ".join(sorted(name for name in sys.modules if "." not in name))))
        if action == "pid":
            return Answer(Observed(str(os.getpid())))
        if action == "print":
            print("noise on standard output")
        self._fault(len([word for word in self.history if word != "informed"]))
        if self.current_task.payload["fault"] == "flood":
            return Answer(Observed("y" * 5_000_000))
        return Answer(self._shown(), 1.0, action == "win")

    def outcome(self):
        won = "win" in self.history
        return Outcome(won, float(won), won, not won, "done" if won else "turn_limit")
