"""What makes TextWorld's PDDL games cheap to load and step, and ALFWorld's way of naming things."""

from __future__ import annotations

import copy
import functools
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sharpo.errors import ConfigError

if TYPE_CHECKING:
    from sharpo.envs.games import Game


def require_textworld() -> None:
    """Import TextWorld's PDDL engine, or say what to install.

    Raises:
        ConfigError: Python is too new for TextWorld, or the package is absent.
    """
    if sys.version_info >= (3, 13):
        raise ConfigError(
            f"household and alfworld games need TextWorld, which runs on Python 3.11 and 3.12, not on "
            f"{sys.version_info[0]}.{sys.version_info[1]}: make the environment with python3.12 and "
            "pip install 'sharpo[alfworld]'"
        )
    try:
        import textworld.envs.pddl.logic  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"household and alfworld games need TextWorld ({error}): pip install 'sharpo[alfworld]'"
        ) from None


class Library:
    """The C++ state machine of this process: one copy, holding one game at a time."""

    def __init__(self) -> None:
        import fast_downward

        self.lib: Any = fast_downward.load_lib()
        self.lib.load_sas_replan = lambda _: None  # only the planner reads it, and the planner is never called
        self.owner: Game | None = None


@functools.cache
def shared_library() -> Library:
    """Return this process's state machine."""
    return Library()


def _shallow(value: Any) -> Any:
    """Copy as deep as the text generator writes: containers and grammar symbols, never entities or facts."""
    from textworld.envs.pddl.textgen import Symbol

    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list):
        return [_shallow(item) for item in value]
    made = copy.copy(value)
    for name in ("symbol", "expression"):
        inner = getattr(made, name, None)
        if isinstance(inner, Symbol):
            setattr(made, name, _shallow(inner))
    return made


@functools.cache
def _fast_parts() -> tuple[Any, dict[str, Any]]:
    import textworld.envs.pddl.textgen as textgen

    parse = functools.cache(textgen._parse_and_convert)
    query = functools.cache(textgen.Rule.parse_conjunctive_query)

    def parse_once(text: str, rule_name: str, trace: bool = False) -> Any:  # noqa: ARG001 - the stock signature
        return _shallow(parse(text, rule_name=rule_name))

    return textgen, {
        "_parse_and_convert": parse_once,
        "Rule": SimpleNamespace(parse_conjunctive_query=query),
        "deepcopy": _shallow,
    }


@contextmanager
def fast_text() -> Iterator[None]:
    """Let the text generator parse each template once and copy less, for the duration of a call."""
    textgen, parts = _fast_parts()
    stock = {name: getattr(textgen, name) for name in parts}
    vars(textgen).update(parts)
    try:
        yield
    finally:
        vars(textgen).update(stock)


@contextmanager
def one_translation() -> Iterator[None]:
    """Translate PDDL once (the second, for the planner, is left out) and give ``sys.argv`` back."""
    import fast_downward

    stock, argv, made = fast_downward.pddl2sas, sys.argv, {}

    def translate(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        if not optimize:
            made["plain"] = stock(domain, problem, verbose=verbose)
        return made["plain"]

    fast_downward.pddl2sas = translate
    try:
        yield
    finally:
        fast_downward.pddl2sas, sys.argv = stock, argv


def sentence(grammar: str) -> str:
    """Return the task sentence of a game's grammar, for example ``put a clean mug in desk``.

    Example:
        >>> sentence('"rhs": "Your task is to: look at mug under the desklamp."')
        'look at mug under the desklamp'
    """
    found = re.search(r"Your task is to: (.*?)\.?\\?[\"\n]", grammar)
    return found.group(1) if found else ""


@functools.lru_cache(maxsize=8)
def _grammar(domain: str, grammar: str) -> Any:
    from textworld.envs.pddl.logic import GameLogic

    return GameLogic(domain, grammar)


def parse_game(domain: str, grammar: str) -> Any:
    """Parse a game's grammar; games that differ in the task sentence alone share the parse."""
    task = sentence(grammar)
    if not task:
        return _grammar(domain, grammar)
    from textworld.envs.pddl.textgen import ContextSensitiveGrammar

    shared = _grammar(domain, grammar.replace(task, "UNKNOWN GOAL"))
    mine = copy.copy(shared)
    mine.grammar = copy.copy(shared.grammar)
    mine.grammar._rules = shared.grammar._rules.copy()
    text = "".join(f"{symbol}" for symbol in shared.grammar._rules["task"][0].rhs).replace("UNKNOWN GOAL", task)
    mine.grammar._rules.update(ContextSensitiveGrammar.parse(json.dumps({"task": [{"rhs": text}]}))._rules)
    return mine


def names(ids: list[str]) -> dict[str, str]:
    """Name entities as ALFWorld does: class and number, numbers falling along the sorted ids."""
    parts = {}
    for entity in sorted(ids):
        kind, bar, _ = entity.partition("_bar_")
        parts[entity] = (kind + ("basin" if bar and "basin" in entity else ""), bool(bar))
    left: dict[str, int] = {}
    for kind, numbered in parts.values():
        left[kind] = left.get(kind, 0) + numbered
    named = {}
    for entity, (kind, numbered) in parts.items():
        named[entity] = f"{kind} {left[kind] if numbered else ''}"
        left[kind] -= numbered
    return named


def predicates(condition: Any) -> set[str]:
    """Return the predicates that a PDDL condition reads."""
    own = {condition.predicate.lower()} if hasattr(condition, "predicate") else set()
    return own.union(*(predicates(part) for part in condition.parts))
