"""The closed vocabulary of household texts, for word tokenizers: the grammar's fragments, sentences and names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from sharpo.envs import scenes

from sharpo.env import UNPARSABLE

_JOINS = (
    ". on the",
    ". the",
    ", a",
    ", and a",
    "you see a",
    ", you see a",
    ", you see nothing.",
    "is open. in it, you see a",
    "is open. in it, you see nothing.",
    ". next to it, you see nothing.",
    "looking quickly around you, you see a",
    "you are in the middle of a room. looking quickly around you, you see a",
    "you are carrying: a",
    "nothing",
    "nothing happens.",
    ".",
)
_SLOT = re.compile(r"#[^#]*#|\[[^\]]*\]|\{[^}]*\}+|UNKNOWN GOAL")
_OTHER_FORM = ("put", "in/on", "You put the", "loc", "You arrive at loc")
"""Words of games made before ``put ... in/on`` became ``move ... to``."""
_MOST = {"Cabinet": 30, "Drawer": 30, "Shelf": 15}


def _parts(texts: Iterable[str]) -> list[str]:
    return [part.strip() for text in texts for part in _SLOT.split(text.replace("\\n", " ")) if part.strip()]


def _grammar_parts() -> list[str]:
    """Return the fixed text between the slots of the grammar's rules and commands, for actions the domain knows."""
    stated = scenes.rules()
    texts = re.findall(r'"rhs": *"((?:[^"\\]|\\.)*)"', stated.grammar)
    texts += re.findall(r'template :: "([^"]*)"', stated.grammar)
    return [part for part in _parts(texts) if "ReceptacleObject" not in part and part not in ("TODO", "put", "into")]


def _sentence_parts() -> list[str]:
    return _parts(text for goal in scenes.rules().goals.values() for text in goal["templates"])


def _order(entries: Iterable[str]) -> tuple[str, ...]:
    unique = {" ".join(entry.lower().split()) for entry in entries}
    return tuple(sorted(unique, key=lambda entry: (-len(entry), entry)))


def _entries(numbers: Mapping[str, int]) -> list[str]:
    names = [f"{kind} {number}" for kind, most in numbers.items() for number in range(1, most + 1)]
    return [*_JOINS, *_grammar_parts(), *_sentence_parts(), *names, *numbers, UNPARSABLE]


def household(object_types: Sequence[str], receptacles: int) -> tuple[str, ...]:
    """Return the vocabulary of generated games over some object classes in rooms of some size."""
    numbers: dict[str, int] = dict.fromkeys((*object_types,), 2) | dict.fromkeys(scenes.LAMPS, 1)
    for room in scenes.ROOMS:
        for kind, most in scenes.limits(room, receptacles).items():
            numbers[kind] = max(most, numbers.get(kind, 0))
    return _order(_entries(numbers))


def alfworld() -> tuple[str, ...]:
    """Return the vocabulary of ALFWorld's own games, in both command forms.

    A receptacle and its number are one token, a thing and its number two: the thing is then the word of the task.
    """
    stated = scenes.rules()
    carried = frozenset[str]().union(*stated.holds.values())
    numbers = {kind: _MOST.get(kind, 6) for kind in sorted(stated.holds.keys() - carried)}
    words = [str(number) for number in range(100)]
    return _order([*_entries(numbers), *sorted(stated.objects), *_OTHER_FORM, *words])
