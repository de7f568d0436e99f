"""How an attempt is put into words: sentences as plain values, and the rules that shorten it."""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter

from sharpo.errors import ConfigError

_FIELDS = {
    "heading": set(),
    "step": {"n", "action", "observation", "result"},
    "step_action": {"n", "action", "observation", "result"},
    "omitted": {"count"},
    "closing": set(),
    "supposed": set(),
}


@dataclass(frozen=True, slots=True)
class Wording:
    """The sentences around and of an attempt. They are joined as they are, so each brings its own line end.

    Args:
        heading: before the steps.
        step: one step; fields ``{n}``, ``{action}``, ``{observation}`` (before it) and ``{result}`` (after it).
        step_action: one step whose observation was left out.
        omitted: in place of ``{count}`` steps that were left out.
        closing: after the steps.
        supposed: the whole hint of ``fallback=outcome_label``: the attempt is supposed to succeed.
    """

    heading: str = "For reference, an attempt at the same task that succeeded:\n"
    step: str = "step {n}: saw: {observation}\n        did: {action}\n"
    step_action: str = "step {n}: did: {action}\n"
    omitted: str = "({count} steps left out)\n"
    closing: str = "Your situation now may differ from that attempt; act from your own state.\n\n"
    supposed: str = "For reference, the attempt that follows succeeds.\n\n"

    def __post_init__(self) -> None:
        for name, known in _FIELDS.items():
            used = {field for _, field, _, _ in Formatter().parse(getattr(self, name)) if field is not None}
            if used - known:
                raise ConfigError(
                    f"hint.wording.{name} uses {sorted(used - known)}; known fields: {sorted(known) or 'none'}"
                )


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
