"""One loaded TextWorld game with an exact memo of its transitions: the real engine plays what is not known yet."""

from __future__ import annotations

import copy
import functools
import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from sharpo.errors import ConfigError

NOTHING = "Nothing happens."
Fact = tuple[str, ...]
"""A true fact: predicate name, then entity ids."""


def require_textworld() -> None:
    """Import TextWorld's PDDL engine, or say what to install.

    Raises:
        ConfigError: Python is too new for TextWorld, or the package is absent.
    """
    if sys.version_info >= (3, 13):
        raise ConfigError(
            f"household and alfworld games need TextWorld, which runs on Python 3.11 and 3.12, not on "
            f"{sys.version_info.major}.{sys.version_info.minor}: make the environment with python3.12 and "
            "pip install 'sharpo[alfworld]'"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TextWorld's parser builder and its optional parts warn while they import
            import textworld.envs.pddl.logic  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"household and alfworld games need TextWorld ({error}): pip install 'sharpo[alfworld]'"
        ) from None


@dataclass(slots=True, eq=False)
class Node:
    """One game state: what is true, what may be done, and the transitions taken so far.

    Args:
        fluents: facts that actions can change, true now.
        parent: the node it was first reached from, with the ground operator that led here.
        commands: command text to ground operator ``(engine id, words)``; sorted by text.
        won: the engine's own verdict.
        next: command to (feedback, next node), filled as commands are played.
        cache: for the oracle.
    """

    fluents: frozenset[Any]
    parent: tuple[Node, int] | None
    commands: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    won: bool = False
    next: dict[str, tuple[str, Node]] = field(default_factory=dict)
    cache: dict[Any, Any] = field(default_factory=dict)

    @property
    def admissible(self) -> tuple[str, ...]:
        """The commands that do something, sorted, without ``help``."""
        found = self.cache.get("admissible")
        if found is None:
            found = self.cache["admissible"] = tuple(command for command in self.commands if command != "help")
        return found


class _Library:
    """The C++ state machine of this process: one copy, holding one game at a time."""

    def __init__(self) -> None:
        import fast_downward

        self.lib = fast_downward.load_lib()
        self.lib.load_sas_replan = lambda _: None  # only the planner reads it, and the planner is never called
        self.owner: Game | None = None


@functools.cache
def _library() -> _Library:
    return _Library()


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
def _fast_text() -> Iterator[None]:
    """Let the text generator parse each template once and copy less, for the duration of a call."""
    textgen, parts = _fast_parts()
    stock = {name: getattr(textgen, name) for name in parts}
    vars(textgen).update(parts)
    try:
        yield
    finally:
        vars(textgen).update(stock)


@contextmanager
def _one_translation() -> Iterator[None]:
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


def _logic(domain: str, grammar: str) -> Any:
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


def _names(ids: list[str]) -> dict[str, str]:
    """Name entities as ALFWorld does: class and number, numbers falling along the sorted ids."""
    parts = {}
    for entity in sorted(ids):
        kind, bar, _ = entity.partition("_bar_")
        parts[entity] = (kind + ("basin" if bar and "basin" in entity else ""), bool(bar))
    left: dict[str, int] = {}
    for kind, numbered in parts.values():
        left[kind] = left.get(kind, 0) + numbered
    names = {}
    for entity, (kind, numbered) in parts.items():
        names[entity] = f"{kind} {left[kind] if numbered else ''}"
        left[kind] -= numbered
    return names


def _predicates(condition: Any) -> set[str]:
    """Return the predicates that a PDDL condition reads."""
    own = {condition.predicate.lower()} if hasattr(condition, "predicate") else set()
    return own.union(*(_predicates(part) for part in condition.parts))


class Game:
    """A game that is being played: deterministic, so every (state, command) is asked of the engine once.

    Args:
        data: a ``game.tw-pddl``: ``pddl_domain``, ``grammar``, ``pddl_problem``.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        require_textworld()
        from textworld.envs.pddl.logic import PddlState
        from textworld.generator.game import EntityInfo

        with _fast_text(), _one_translation():
            self._logic = _logic(data["pddl_domain"], data["grammar"])
            self._library = _library()
            self._library.owner = None
            self._state: Any = PddlState(self._library.lib, data["pddl_problem"], self._logic)
        self._library.owner = self
        self._sas = self._state.sas.encode()
        self._state.sas = self._state.sas_replan = ""
        infos = {var.name: EntityInfo(var.name, var.type) for fact in self._state.facts for var in fact.arguments}
        names = _names(list(infos))
        for key, info in infos.items():
            info.name, info.definite, info.indefinite = names[key], "the", "a"
        self._infos = infos
        self.name: Mapping[str, str] = names
        self.kind: Mapping[str, str] = self._state.name2type
        self._texts: dict[str, str] = {}
        changed, read = self._signature()
        self._changed = changed
        words = set(re.findall(r"\w+", data["grammar"].lower()))
        self._inert = {name for name in changed if name not in read and not {name, f"not_{name}"} & words}
        facts = list(self._state.facts)
        self.static = frozenset(self._plain(fact) for fact in facts if fact.name not in changed)
        self._nodes: dict[frozenset[Any], Node] = {}
        self._ids: dict[Node, int] = {}
        self._now = frozenset(fact for fact in facts if fact.name in changed)
        self.intro = self._derive("#intro#", {})
        self.root = self._node(self._now, None)

    def step(self, node: Node, command: str) -> tuple[str, Node]:
        """Return the game's answer and the state after ``command``; an unknown command changes nothing."""
        found = node.next.get(command)
        if found is None:
            operator = node.commands.get(command)
            if operator is None:
                return NOTHING, node
            found = node.next[command] = self._play(node, operator[0])
        return found

    def facts(self, node: Node) -> frozenset[Fact]:
        """Return the facts of a state that actions can change, as plain tuples."""
        found = node.cache.get("facts")
        if found is None:
            found = node.cache["facts"] = frozenset(self._plain(fact) for fact in node.fluents)
        return found

    # -- the engine ------------------------------------------------------------------------------------------------
    @staticmethod
    def _plain(fact: Any) -> Fact:
        return (fact.name, *(var.name for var in fact.arguments))

    def _signature(self) -> tuple[set[str], set[str]]:
        """Return the predicates that some action changes, and those that some condition reads."""
        task = self._state.task
        changed, read = set(), _predicates(task.goal)
        for action in task.actions:
            read |= _predicates(action.precondition)
            for effect in action.effects:
                read |= _predicates(effect.condition)
                changed.add(effect.literal.predicate.lower())
        for axiom in task.axioms:
            read |= _predicates(axiom.condition)
            changed.add(axiom.name.lower())
        return changed | {f"not_{name}" for name in changed}, read

    def _enter(self, node: Node) -> None:
        """Bring engine and facts into a state: by its id, or by replaying operators after another game's turn."""
        from fast_downward import Atom

        library = self._library
        if library.owner is not self:
            library.lib.load_sas(self._sas)
            library.owner = self
            self._ids = {self.root: library.lib.get_state_id()}
        path = []
        start = node
        while start not in self._ids and start.parent is not None:
            path.append((start, start.parent[1]))
            start = start.parent[0]
        library.lib.set_state_id(self._ids[start])
        for reached, operator in reversed(path):
            library.lib.apply_operator(operator, (Atom * 64)())
            self._ids[reached] = library.lib.get_state_id()
        self._state.remove_facts(self._now - node.fluents)
        self._state.add_facts(node.fluents - self._now)
        self._now = node.fluents

    def _play(self, node: Node, operator: int) -> tuple[str, Node]:
        self._enter(node)
        action = next(action for action in self._state.all_applicable_actions() if action.id == operator)
        facts = set(node.fluents)
        for change in self._state.apply(action):
            facts.discard(change.negate())
            facts.add(change)
        self._now = frozenset(facts)
        feedback = self._derive(action.feedback_rule, action.mapping)
        return feedback, self._node(self._now, (node, operator))

    def _node(self, facts: frozenset[Any], parent: tuple[Node, int] | None) -> Node:
        """Return the node of the engine's present state; facts that nothing reads do not tell states apart."""
        key = frozenset(fact for fact in facts if fact.name not in self._inert)
        found = self._nodes.get(key)
        if found is None:
            commands: dict[str, tuple[int, tuple[str, ...]]] = {}
            for action in self._state.all_applicable_actions():
                words = self._state._operators[action.id].name
                text = self._texts.get(words)
                if text is None:
                    text = self._derive(action.command_template, action.mapping).strip()
                    if not self._changed & set(re.findall(r"\w+", action.command_template)):
                        self._texts[words] = text
                commands.setdefault(text, (action.id, tuple(words.split())))
            won = bool(self._state.check_goal())
            found = Node(facts, parent, dict(sorted(commands.items())), won)
            self._nodes[key] = found
            self._ids[found] = self._library.lib.get_state_id()
        return found

    def _derive(self, rule: str, mapping: Mapping[Any, Any]) -> str:
        context = {
            "state": self._state,
            "facts": [],
            "variables": {place.name: self._infos[var.name] for place, var in mapping.items()},
            "mapping": mapping,
            "entity_infos": self._infos,
        }
        with _fast_text():
            return self._logic.grammar.derive(rule, context)
