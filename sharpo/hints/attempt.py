"""How an attempt is put into words: sentences as plain values, and the rules that shorten it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from string import Formatter
from typing import ClassVar

from sharpo.errors import ConfigError

Tokenize = Callable[[str], list[int]]

_STEP = {"n", "action", "observation", "result"}
_FIELDS = {
    "heading": set(),
    "step": _STEP,
    "step_action": _STEP,
    "omitted": {"count"},
    "closing": set(),
    "supposed": set(),
    "succeeded": {"observation", "score"},
    "failed": {"observation", "score"},
    "do": set(),
    "avoid": set(),
    "item": {"action"},
}


@dataclass(frozen=True, slots=True)
class Wording:
    """The sentences of every hint. They are joined as they are, so each brings its own line end.

    Args:
        heading: before the steps of an attempt.
        step: one step; fields ``{n}``, ``{action}``, ``{observation}`` (before it) and ``{result}`` (after it).
        step_action: one step whose observation was left out.
        omitted: in place of ``{count}`` steps that were left out.
        closing: after an attempt, and after the lists of a contrast.
        supposed: the whole hint of ``fallback=outcome_label``: the attempt is supposed to succeed.
        succeeded: the whole hint of a successful outcome; fields ``{observation}``, the last one, and ``{score}``.
        failed: the same of a failed one.
        do: before the actions that only successful attempts took.
        avoid: before the actions that only failed attempts took.
        item: one such ``{action}``.
        obs_chars: observations longer than this are cut at a word; None = never.
    """

    skills: ClassVar[str] = ""
    """Subfolder of the skill texts that goes with these words."""

    heading: str = "For reference, an attempt at the same task that succeeded:\n"
    step: str = "step {n}: saw: {observation}\n        did: {action}\n"
    step_action: str = "step {n}: did: {action}\n"
    omitted: str = "({count} steps left out)\n"
    closing: str = "Your situation now may differ; act from your own state.\n\n"
    supposed: str = "For reference, the attempt that follows succeeds.\n\n"
    succeeded: str = "For reference, the attempt that follows succeeds. Its last observation: {observation}\n\n"
    failed: str = "For reference, the attempt that follows fails. Its last observation: {observation}\n\n"
    do: str = "For reference, only attempts at the same task that succeeded took these actions:\n"
    avoid: str = "For reference, only attempts at the same task that failed took these actions:\n"
    item: str = "- {action}\n"
    obs_chars: int | None = 200

    def __post_init__(self) -> None:
        for name, known in _FIELDS.items():
            used = {field for _, field, _, _ in Formatter().parse(getattr(self, name)) if field is not None}
            if used - known:
                raise ConfigError(
                    f"wording.{name} uses {sorted(used - known)}; known fields: {sorted(known) or 'none'}"
                )
        if self.obs_chars is not None and self.obs_chars < 1:
            raise ConfigError(f"wording.obs_chars must be >= 1 or null, got {self.obs_chars}")


@dataclass(frozen=True, slots=True)
class TinyWording(Wording):
    """The same without a word that is not the environment's own: an attempt reads like an earlier conversation."""

    skills: ClassVar[str] = "tiny"

    heading: str = ""
    step: str = "{observation}<|act|>{action}<|end|><|obs|>"
    step_action: str = "<|act|>{action}<|end|><|obs|>"
    omitted: str = ""
    closing: str = ""
    supposed: str = "<|act|><|end|><|obs|>"
    succeeded: str = "{observation}<|act|><|end|><|obs|>"
    failed: str = "{observation}<|end|><|obs|>"
    do: str = ""
    avoid: str = "<|end|><|obs|>"
    item: str = "<|act|>{action}<|end|><|obs|>"
    obs_chars: int | None = None


def clip(text: str, chars: int | None) -> str:
    """Return a one-line text of at most about ``chars`` characters, cut at a word.

    Example:
        >>> clip("you open the drawer 1", 9)
        'you open ...'
    """
    line = " ".join(text.split())
    if chars is None or len(line) <= chars:
        return line
    head = line[: chars + 1].rsplit(" ", 1)[0] if " " in line[: chars + 1] else line[:chars]
    return head + " ..."


def middle_out(count: int) -> list[int]:
    """Return indices from the middle outwards; the first and the last come at the end.

    Example:
        >>> middle_out(5)
        [2, 1, 3, 0, 4]
    """
    middle = (count - 1) / 2
    return sorted(range(count), key=lambda i: (abs(i - middle), i))


def shorten(text: Callable[[int], str], levels: range, budget: int, tokenize: Tokenize) -> tuple[tuple[int, ...], bool]:
    """Return the ids of the first level that fits the budget, () when none does, and whether it was not the first.

    Args:
        text: the hint at a level; a higher level is shorter.
        levels: from everything to the least that makes sense.
        budget: tokens.
        tokenize: text to ids.

    Example:
        >>> shorten(lambda level: "abcdef"[: 6 - level], range(5), 3, lambda text: [ord(c) for c in text])
        ((97, 98, 99), True)
    """
    found: dict[int, tuple[int, ...]] = {}

    def fits(level: int) -> bool:
        found[level] = tuple(tokenize(text(level)))
        return len(found[level]) <= budget

    if fits(levels[0]):
        return found[levels[0]], False
    at = bisect_left(levels, True, key=fits)
    return (() if at == len(levels) else found[levels[at]]), True
