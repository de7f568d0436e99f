"""The environment contract: a Gymnasium env over text that states its families, parses actions and knows its oracle."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import gymnasium
from gymnasium.spaces import Space

from sharpo.episode import Outcome, Task
from sharpo.errors import ConfigError

ActionFormat = Literal["plain", "tags", "benchmark"]
Split = str
"""``train``, ``val``, or a split that the environment names in ``splits``."""

UNPARSABLE = "Your answer held no action in the required form. Nothing happens."


class FreeText(Space[str]):
    """Any string. ``gymnasium.spaces.Text`` refuses letters outside its character set."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> str:  # noqa: ARG002 - Gymnasium's signature
        """Return a short random string of letters (only Gymnasium's checker asks for one)."""
        return "".join(chr(97 + int(self.np_random.integers(26))) for _ in range(8))

    def contains(self, x: Any) -> bool:
        """Return True for every string."""
        return isinstance(x, str)

    @property
    def is_np_flattenable(self) -> bool:
        """Text has no flat array form."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeText)

    def __hash__(self) -> int:
        return hash(type(self))


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """An action found in the model's text.

    Args:
        action: the environment-facing action.
        chars: half-open character ranges in the text by name: ``action``, and where they exist
            ``action_with_tags`` and ``think``.
        valid: False when an action was read though the text broke the required form (``benchmark`` only).
        penalty: subtracted from the turn's return when it is not valid.
    """

    action: str
    chars: Mapping[str, tuple[int, int]]
    valid: bool = True
    penalty: float = 0.0


_ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL | re.IGNORECASE)
_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_CJK = re.compile(r"[\u4e00-\u9fff]")


def parse_plain(text: str) -> ParsedAction | None:
    """Take the whole stripped text as the action; None when it is empty.

    Example:
        >>> parse_plain(" look ").chars["action"]
        (1, 5)
    """
    action = text.strip()
    if not action:
        return None
    start = text.index(action)
    span = (start, start + len(action))
    return ParsedAction(action, {"action": span, "action_with_tags": span})


def parse_tags(text: str) -> ParsedAction | None:
    """Take the text of the first ``<action>`` element; None without one, or when it is empty.

    The action is lower-cased and stripped; nothing is guessed from other text.

    Example:
        >>> parse_tags("<think>go</think><action>Look</action>").action
        'look'
        >>> parse_tags("look") is None
        True
    """
    found = _ACTION.search(text)
    if found is None or not found.group(1).strip():
        return None
    inner = found.group(1)
    start = found.start(1) + (len(inner) - len(inner.lstrip()))
    chars = {"action": (start, start + len(inner.strip())), "action_with_tags": found.span()}
    think = _THINK.search(text, 0, found.start())
    if think is not None:
        chars["think"] = think.span(1)
    return ParsedAction(inner.strip().lower(), chars)


def parse_benchmark(text: str, guess_chars: int = 30) -> ParsedAction:
    """Take the action as the benchmark family's code does: always one, be it a guess, and a verdict on the form.

    The text between the first ``<action>`` and the first ``</action>`` of the lower-cased text, or its last
    ``guess_chars`` characters. Valid = these tags in this order, ``<think>`` and ``</think>`` as they stand, and no
    Chinese character; whether the environment knows the action is not asked. A guess has no ``chars``.

    Example:
        >>> parse_benchmark("<think>go</think><action>Look</action>").valid
        True
        >>> parse_benchmark("Look") == ParsedAction("look", {}, valid=False)
        True
    """
    low = text.lower()
    if len(low) != len(text):  # a few letters become two
        low = "".join(letter if len(letter.lower()) > 1 else letter.lower() for letter in text)
    start, stop = low.find("<action>"), low.find("</action>")
    if start < 0 or stop < 0:
        return ParsedAction(low[-guess_chars:], {}, valid=False)
    inner = text[start + len("<action>") : stop]
    if not inner.strip():
        return ParsedAction("", {}, valid=False)
    first = start + len("<action>") + len(inner) - len(inner.lstrip())
    chars = {"action": (first, first + len(inner.strip())), "action_with_tags": (start, stop + len("</action>"))}
    think = _THINK.search(text, 0, start)
    if think is not None:
        chars["think"] = think.span(1)
    formed = "<think>" in text and "</think>" in text and not _CJK.search(text)
    return ParsedAction(inner.strip().lower(), chars, valid=formed)


@dataclass(frozen=True, slots=True)
class Observed:
    """What an environment shows after a reset or a step, as data.

    Args:
        text: the observation.
        admissible: actions the environment would accept now; empty when it cannot list them.
        oracle: the next action of the environment's oracle, or None when it has none or was not asked.
    """

    text: str
    admissible: tuple[str, ...] = ()
    oracle: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a subclass returns from one step: the new observation, the reward and whether the task ended."""

    observed: Observed
    reward: float = 0.0
    done: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)


class TextEnv(gymnasium.Env[str, str | None], ABC):
    """Base of all environments.

    A subclass gives ``families``, ``num_tasks``, ``task``, ``_reset``, ``_step`` and ``outcome``. The base counts
    turns, ends the episode as truncated exactly at ``max_turns``, answers an unparsable action (None) with a fixed
    message and the state unchanged, and puts ``admissible``, ``oracle``, ``family``, ``invalid`` and ``penalty`` into
    ``info``. A step whose answer's info says ``invalid`` is penalised like an unparsable one.

    Args:
        max_turns: turns until the episode is truncated.
        action_format: ``plain`` (the whole text is the action), ``tags`` (inside ``<action>``) or ``benchmark``
            (inside ``<action>``, or a guess that counts as invalid; see :func:`parse_benchmark`).
        invalid_penalty: subtracted from the return of a turn whose text held no action.
    """

    families: ClassVar[tuple[str, ...]]
    splits: ClassVar[tuple[str, ...]] = ("train", "val")
    guess_chars: ClassVar[int] = 30
    """How much of a text without tags ``action_format=benchmark`` takes as the action."""
    no_effect: ClassVar[str | None] = None
    """What the environment answers when an action had no effect; None = it has no such fixed answer."""

    def __init__(self, max_turns: int, action_format: ActionFormat = "tags", invalid_penalty: float = 0.0) -> None:
        if max_turns < 1:
            raise ValueError(f"env.max_turns must be >= 1, got {max_turns}")
        if action_format not in get_args(ActionFormat):
            raise ValueError(f"env.action_format must be 'plain', 'tags' or 'benchmark', got {action_format!r}")
        if invalid_penalty < 0:
            raise ValueError(f"env.invalid_penalty must be >= 0, got {invalid_penalty}")
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.max_turns = max_turns
        self.action_format = action_format
        self.invalid_penalty = invalid_penalty
        self.current_task: Task | None = None
        self.asks_oracle = True
        self._turns = 0
        self._observed = Observed("")

    # -- what a subclass gives -------------------------------------------------------------------------------------
    @abstractmethod
    def num_tasks(self, split: Split) -> int | None:
        """Return how many tasks a split has, None for endlessly many."""

    @abstractmethod
    def task(self, split: Split, index: int) -> Task:
        """Return task ``index`` of a split; the same for the same arguments on every machine."""

    @abstractmethod
    def _reset(self, task: Task, *, informed_oracle: bool) -> Observed:
        """Begin ``task``; ``informed_oracle`` lets the oracle use what the agent cannot see."""

    @abstractmethod
    def _step(self, action: str) -> Answer:
        """Apply an action that was parsed; an action the environment does not know changes nothing."""

    @abstractmethod
    def outcome(self) -> Outcome:
        """Return the verdict so far; ``terminated`` and ``truncated`` reflect the last step."""

    def lexicon(self) -> tuple[str, ...]:
        """Return the words and phrases that cover every text of this environment, longest first.

        From them a word-level tokenizer for a from-scratch model is made.

        Raises:
            ConfigError: this environment's texts have no closed vocabulary.
        """
        raise ConfigError(
            f"{type(self).__name__} has no closed vocabulary, so no word-level tokenizer can be made for it: "
            "use a pretrained model, or an environment with a lexicon (household, alfworld, webshop)"
        )

    # -- what the base does ----------------------------------------------------------------------------------------
    def check_split(self, split: Split) -> None:
        """Refuse a split that this environment does not have."""
        if split not in self.splits:
            raise ConfigError(
                f"split {split!r}: {type(self).__name__} has no such split, it has {', '.join(self.splits)}; "
                "choose one of them (panel.<name>.split)"
            )

    def parse(self, text: str) -> ParsedAction | None:
        """Find the action in the model's text, or None; a guess only where ``action_format`` is ``benchmark``."""
        if self.action_format == "benchmark":
            found = parse_benchmark(text, self.guess_chars)
            return found if found.valid else replace(found, penalty=self.invalid_penalty)
        return parse_plain(text) if self.action_format == "plain" else parse_tags(text)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a task: ``options["task"]``, or the training task that ``seed`` draws.

        Args:
            seed: Gymnasium's seed; draws a task when no task is given.
            options: ``task`` (a Task) and ``informed_oracle`` (bool; None = no oracle is asked, so none is computed).
        """
        super().reset(seed=seed)
        given = (options or {}).get("task")
        if given is None:
            count = self.num_tasks("train")
            given = self.task("train", int(self.np_random.integers(count if count is not None else 2**31)))
        self.current_task = given
        self._turns = 0
        informed = (options or {}).get("informed_oracle", False)
        self.asks_oracle = informed is not None
        self._observed = self._reset(given, informed_oracle=bool(informed))
        return self._observed.text, self._info(False)

    def step(self, action: str | None) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Apply one action; None is an unparsable one: fixed message, state unchanged, the turn is counted."""
        if self.current_task is None:
            raise RuntimeError(f"{type(self).__name__}.step was called before reset")
        self._turns += 1
        if action is None:
            answer = Answer(Observed(UNPARSABLE, self._observed.admissible, self._observed.oracle))
        else:
            answer = self._step(action)
        self._observed = answer.observed
        truncated = not answer.done and self._turns >= self.max_turns
        info = self._info(action is None or bool(answer.info.get("invalid")))
        return answer.observed.text, answer.reward, answer.done, truncated, {**answer.info, **info}

    def _info(self, invalid: bool) -> dict[str, Any]:
        assert self.current_task is not None
        return {
            "admissible": self._observed.admissible,
            "oracle": self._observed.oracle,
            "family": self.current_task.family,
            "invalid": invalid,
            "penalty": self.invalid_penalty if invalid else 0.0,
        }
