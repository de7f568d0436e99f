"""The smallest environment a random policy can learn from: say the word that is asked for."""

from __future__ import annotations

from typing import ClassVar

from sharpo.env import UNPARSABLE, ActionFormat, Answer, Observed, Split, TextEnv
from sharpo.episode import Outcome, Task

WORDS = ("red", "blue", "green", "grey")


class WordEnv(TextEnv):
    """Every turn asks for one of four words; an answer that holds it solves the task."""

    families: ClassVar[tuple[str, ...]] = ("pick", "look")

    def __init__(self, max_turns: int = 3, action_format: ActionFormat = "plain", invalid_penalty: float = 0.1) -> None:
        super().__init__(max_turns, action_format, invalid_penalty)
        self._won = False

    def num_tasks(self, split: Split) -> int | None:
        return None if split == "train" else 12

    def task(self, split: Split, index: int) -> Task:
        return Task(f"word/{split}/{index}", self.families[index % 2], f"say {WORDS[index % 4]}", index)

    def lexicon(self) -> tuple[str, ...]:
        return (*WORDS, "say", "no", "yes", ".", *UNPARSABLE.split())

    def _reset(self, task: Task, *, informed_oracle: bool) -> Observed:
        self._won = False
        return self._seen(f"{task.instruction} .")

    def _step(self, action: str) -> Answer:
        assert self.current_task is not None
        self._won = self.current_task.instruction.split()[1] in action.split()
        return Answer(
            self._seen("yes ." if self._won else f"no . {self.current_task.instruction} ."), 10.0 * self._won, self._won
        )

    def _seen(self, text: str) -> Observed:
        assert self.current_task is not None
        return Observed(text, WORDS, self.current_task.instruction.split()[1])

    def outcome(self) -> Outcome:
        over = self._turns >= self.max_turns and not self._won
        return Outcome(self._won, float(self._won), self._won, over, "done" if self._won else "turn_limit")
