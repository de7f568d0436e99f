"""A small, fast, deterministic environment with two families and an oracle, and a word-level tokenizer for it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from sharpo.env import ActionFormat, Answer, Observed, Split, TextEnv
from sharpo.episode import Outcome, Task

BOXES = 3
SPECIALS = ("<pad>", "<unk>", "<|user|>", "<|assistant|>", "<|end|>", "<think>", "</think>", "<action>", "</action>")
WORDS = """
go to box 1 2 3 take key wash put look help you are at the table . see a nothing happens have it is clean done
your task : on and Your answer held no action in required form. Nothing happens. , > step
"""
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|> ' + m['content'] + ' <|end|> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|> ' }}{% endif %}"
)


class ToyEnv(TextEnv):
    """Find the key in one of three boxes, wash it when the family says so, and put it on the table."""

    families: ClassVar[tuple[str, ...]] = ("pick", "clean")

    def __init__(
        self,
        max_turns: int = 8,
        action_format: ActionFormat = "plain",
        invalid_penalty: float = 0.1,
        train_tasks: int | None = None,
    ) -> None:
        super().__init__(max_turns, action_format, invalid_penalty)
        self.train_tasks = train_tasks
        self._box = self._at = 0
        self._held = self._washed = self._done = False
        self._informed = False

    def num_tasks(self, split: Split) -> int | None:
        return self.train_tasks if split == "train" else 12

    def task(self, split: Split, index: int) -> Task:
        family = self.families[index % 2]
        words = "put a key on the table" if family == "pick" else "wash a key and put it on the table"
        return Task(f"toy/{split}/{index}", family, words, seed=index, payload={"box": 1 + (index // 2) % BOXES})

    def _reset(self, task: Task, *, informed_oracle: bool) -> Observed:
        self._box, self._at = task.payload["box"], 0
        self._held = self._washed = self._done = False
        self._informed = informed_oracle
        return self._seen(f"you are at the table . your task : {task.instruction} .")

    def _step(self, action: str) -> Answer:
        text, reward = "nothing happens .", 0.0
        if action.startswith("go to box ") and action[-1] in "123"[:BOXES]:
            self._at = int(action[-1])
            here = self._at == self._box and not self._held
            text = f"you are at box {self._at} . you see {'a key' if here else 'nothing'} ."
        elif action == "take key" and self._at == self._box and not self._held:
            self._held, text = True, "you have the key ."
        elif action == "wash key" and self._held:
            self._washed, text = True, "the key is clean ."
        elif action == "put key" and self._held and (self._washed or self._family == "pick"):
            self._done, reward, text = True, 1.0, "done ."
        return Answer(self._seen(text), reward, self._done)

    def outcome(self) -> Outcome:
        stopped = not self._done and self._turns >= self.max_turns
        reason = "done" if self._done else "turn_limit"
        return Outcome(self._done, float(self._done), self._done, stopped, reason)

    @property
    def _family(self) -> str:
        assert self.current_task is not None
        return self.current_task.family

    def _seen(self, text: str) -> Observed:
        admissible = [f"go to box {n}" for n in range(1, BOXES + 1)] + ["look", "help"]
        admissible += ["take key"] if self._at == self._box and not self._held else []
        admissible += ["wash key", "put key"] if self._held else []
        return Observed(text, tuple(admissible), self._oracle())

    def _oracle(self) -> str:
        if self._held:
            return "wash key" if self._family == "clean" and not self._washed else "put key"
        if self._at == self._box:
            return "take key"
        return f"go to box {self._box if self._informed else self._at % BOXES + 1}"


def save_toy_tokenizer(folder: Path, chat_template: str = CHAT_TEMPLATE) -> Path:
    """Write a word-level tokenizer with a chat template that ``AutoTokenizer`` loads; return the folder."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = list(dict.fromkeys([*SPECIALS, *WORDS.split()]))
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<|end|>",
        additional_special_tokens=list(SPECIALS[2:]),
    )
    tokenizer.chat_template = chat_template
    tokenizer.save_pretrained(folder)
    return folder
