"""One loaded TextWorld game with an exact memo of its transitions: the real engine plays what is not known yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sharpo.envs import tw_parts
from sharpo.envs.oracle import Fact
from sharpo.envs.tw_parts import fast_text, one_translation, predicates

Option = tuple[str, int, tuple[str, ...]]


@dataclass(slots=True, eq=False)
class Node:
    """One game state: what is true, what may be done, and the transitions taken so far.

    Args:
        fluents: facts that actions can change, true now.
        parent: the node it was first reached from, with the ground operator that led here.
        options: by command text, sorted: the command, the engine's operator, its name and arguments.
        won: the engine's own verdict.
        next: command to (feedback, next node), filled as commands are played.
        facts: ``fluents`` as plain tuples, once asked for.
    """

    fluents: frozenset[Any]
    parent: tuple[Node, int] | None
    options: Mapping[str, Option] = field(default_factory=dict)
    won: bool = False
    next: dict[str, tuple[str, Node]] = field(default_factory=dict)
    facts: frozenset[Fact] | None = None


class Game:
    """A game that is being played: deterministic, so every (state, command) is asked of the engine once.

    Args:
        data: a ``game.tw-pddl``: ``pddl_domain``, ``grammar``, ``pddl_problem``.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        tw_parts.require_textworld()
        from textworld.envs.pddl.logic import PddlState
        from textworld.generator.game import EntityInfo

        with fast_text(), one_translation():
            self._logic = tw_parts.parse_game(data["pddl_domain"], data["grammar"])
            self._library = tw_parts.shared_library()
            self._library.owner = None
            self._state: Any = PddlState(self._library.lib, data["pddl_problem"], self._logic)
        self._library.owner = self
        self._sas = self._state.sas.encode()
        self._state.sas = self._state.sas_replan = ""
        infos: dict[str, Any] = {
            var.name: EntityInfo(var.name, var.type) for fact in self._state.facts for var in fact.arguments
        }
        names = tw_parts.names(list(infos))
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
        self.start = self._node(self._now, None)

    def options(self, node: Node) -> Mapping[str, Option]:
        """Return the admissible commands, sorted, with the option that each stands for."""
        return node.options

    def words(self, option: Option) -> tuple[str, ...]:
        """Return the name and the arguments of an action."""
        return option[2]

    def won(self, node: Node) -> bool:
        """Return the engine's own verdict."""
        return node.won

    def play(self, node: Node, option: Option) -> tuple[str, Node]:
        """Return the game's answer and the state after it."""
        command, operator, _ = option
        found = node.next.get(command)
        if found is None:
            found = node.next[command] = self._play(node, operator)
        return found

    def facts(self, node: Node) -> frozenset[Fact]:
        """Return the facts of a state that actions can change, as plain tuples."""
        if node.facts is None:
            node.facts = frozenset(self._plain(fact) for fact in node.fluents)
        return node.facts

    # -- the engine ------------------------------------------------------------------------------------------------
    @staticmethod
    def _plain(fact: Any) -> Fact:
        return (fact.name, *(var.name for var in fact.arguments))

    def _signature(self) -> tuple[set[str], set[str]]:
        """Return the predicates that some action changes, and those that some condition reads."""
        task = self._state.task
        changed, read = set(), predicates(task.goal)
        for action in task.actions:
            read |= predicates(action.precondition)
            for effect in action.effects:
                read |= predicates(effect.condition)
                changed.add(effect.literal.predicate.lower())
        for axiom in task.axioms:
            read |= predicates(axiom.condition)
            changed.add(axiom.name.lower())
        return changed | {f"not_{name}" for name in changed}, read

    def _enter(self, node: Node) -> None:
        """Bring engine and facts into a state: by its id, or by replaying operators after another game's turn."""
        from fast_downward import Atom

        library = self._library
        if library.owner is not self:
            library.lib.load_sas(self._sas)
            library.owner = self
            self._ids = {self.start: library.lib.get_state_id()}
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
            options: dict[str, Option] = {}
            for action in self._state.all_applicable_actions():
                words = self._state._operators[action.id].name
                text = self._texts.get(words)
                if text is None:
                    text = self._derive(action.command_template, action.mapping).strip()
                    if not self._changed & set(re.findall(r"\w+", action.command_template)):
                        self._texts[words] = text
                options.setdefault(text, (text, action.id, tuple(words.split())))
            won = bool(self._state.check_goal())
            found = Node(facts, parent, dict(sorted(options.items())), won)
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
        with fast_text():
            return self._logic.grammar.derive(rule, context)
