"""From a ``game.tw-pddl`` to a compiled game, through TextWorld's own parsers and translator: the only user of them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from sharpo.envs import tw_parts
from sharpo.envs.native.compiled import Compiled
from sharpo.envs.native.engine import NativeGame
from sharpo.envs.native.phrases import Phrases

from sharpo.errors import DataError

STATIC = ("receptacleatlocation", "openable", "receptacletype", "objecttype", "cancontain")
"""Unchanging facts that the oracle reads."""
Literal = tuple[int, bool]
"""A variable of the translated task and whether its atom is true."""


class Task:
    """The translated task: two-valued variables, operators, axioms."""

    def __init__(self, sas: str) -> None:
        lines = iter(sas.split("\n"))
        self.atoms: list[tuple[str, ...]] = []
        self.true_at: list[int] = []
        self.operators: list[tuple[str, list[Literal], list[tuple[list[Literal], Literal]]]] = []
        self.axioms: dict[Literal, list[list[Literal]]] = {}
        for line in lines:
            if line == "begin_variable":
                self._variable(lines)
            elif line == "begin_state":
                self.initial = [int(next(lines)) == self.true_at[v] for v in range(len(self.atoms))]
            elif line == "begin_goal":
                self.goal = self._literals(lines)
            elif line == "begin_operator":
                self._operator(lines)
            elif line == "begin_rule":
                body = self._literals(lines)
                variable, _, value = map(int, next(lines).split())
                self.axioms.setdefault(self._literal(variable, value), []).append(body)

    def _literal(self, variable: int, value: int) -> Literal:
        return variable, value == self.true_at[variable]

    def _literals(self, lines: Iterator[str]) -> list[Literal]:
        count = int(next(lines))
        return [self._literal(*map(int, line.split())) for line in islice(lines, count)]

    def _variable(self, lines: Iterator[str]) -> None:
        name, _, size = next(lines), next(lines), int(next(lines))
        values = list(islice(lines, size))
        true = [i for i, value in enumerate(values) if value.startswith("Atom ")]
        if size != 2 or len(true) != 1:
            raise DataError(f"the translated game has a variable {name} that is not one true or false fact: {values}")
        self.true_at.append(true[0])
        self.atoms.append(_atom(values[true[0]]))

    def _operator(self, lines: Iterator[str]) -> None:
        name = next(lines)
        needs = self._literals(lines)
        effects = []
        for line in islice(lines, int(next(lines))):
            count, *numbers = map(int, line.split())
            when = [self._literal(*numbers[2 * i : 2 * i + 2]) for i in range(count)]
            variable, before, after = numbers[2 * count :]
            if before >= 0:
                needs.append(self._literal(variable, before))
            effects.append((when, self._literal(variable, after)))
        self.operators.append((name, needs, effects))

    def reduced(self, literals: list[Literal]) -> list[list[Literal]]:
        """Return a conjunction as alternatives over plain variables: axioms unfolded."""
        done: list[list[Literal]] = [[]]
        for literal in literals:
            bodies = self.axioms.get(literal)
            if bodies is None:
                if (literal[0], not literal[1]) in self.axioms:
                    raise DataError("the game's rules negate a derived fact, which compiled games do not know")
                choices = [[literal]]
            else:
                choices = [found for body in bodies for found in self.reduced(body)]
            done = [[*one, *more] for one in done for more in choices]
        return done


def _atom(text: str) -> tuple[str, ...]:
    name, _, rest = text.removeprefix("Atom ").removeprefix("NegatedAtom ").partition("(")
    return (name, *(argument for argument in rest.rstrip(")").split(", ") if argument))


# -- the grammar -------------------------------------------------------------------------------------------------------
def _value(expression: str) -> list[list[str]]:
    """Return a Python expression of the grammar, such as ``o.indefinite + ' ' + o.name``, as parts to join."""

    def parts(node: ast.expr) -> list[list[str]]:
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return parts(left) + parts(right)
            case ast.Constant(value=str(text)):
                return [["text", text]]
            case ast.BoolOp(op=ast.Or(), values=[ast.Attribute(attr="name") as first, *_]):
                return parts(first)  # a name is never empty
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name), attr="name"):
                return [["name", name]]
            case ast.Attribute(value=ast.Name(id=name), attr="id"):
                return [["id", name]]
            case ast.Attribute(value=ast.Name(), attr="indefinite"):
                return [["article", "a"]]
        raise DataError(f"the game's grammar computes {expression!r}, which compiled games do not know")

    return parts(ast.parse(expression.strip(), mode="eval").body)


@functools.lru_cache(maxsize=1024)
def _query(expression: str | None) -> list[Any] | None:
    if not expression:
        return None
    from textworld.logic import Rule

    rule = Rule.parse_conjunctive_query(expression)
    return [[atom.name, [place.name for place in atom.parameters]] for atom in rule.preconditions]


def _symbol(symbol: Any) -> Any:
    kind = type(symbol).__name__
    if kind == "TerminalSymbol":
        return str(symbol)
    if kind == "NonterminalSymbol":
        return ["rule", str(symbol.symbol)]
    if kind == "EvalSymbol":
        return ["value", _value(symbol.expression)]
    if kind == "ConditionalSymbol":
        return ["each", _symbol(symbol.expression), _query(symbol.given)]
    if kind == "ListSymbol":
        return ["list", _symbol(symbol.symbol)]
    raise DataError(f"the game's grammar has a {kind}, which compiled games do not know")


@functools.lru_cache(maxsize=1024)
def _symbols(text: str) -> list[Any]:
    from textworld.envs.pddl.textgen import _parse_and_convert

    parse: Any = _parse_and_convert
    return [_symbol(symbol) for symbol in parse(text, rule_name="symbols")]


def _read(symbols: Any) -> Iterator[str]:
    """Yield the predicates that symbols query."""
    if isinstance(symbols, list):
        if symbols and symbols[0] == "each":
            yield from (atom[0] for atom in symbols[2] or ())
        for symbol in symbols:
            yield from _read(symbol)


def compile_game(data: Mapping[str, Any]) -> Compiled:
    """Compile a ``game.tw-pddl``: ``pddl_domain``, ``grammar``, ``pddl_problem``.

    Raises:
        DataError: the game uses something that compiled games do not know.
    """
    tw_parts.require_textworld()
    import fast_downward

    with tw_parts.one_translation():
        logic = tw_parts.parse_game(data["pddl_domain"], data["grammar"])
        translated: Any = fast_downward.pddl2sas(data["pddl_domain"], data["pddl_problem"])
    stated, sas = translated
    task = Task(sas)
    kinds = {thing.name: thing.type_name for thing in stated.objects}
    start = {(a.predicate, *a.args) for a in stated.init if type(a).__name__ == "Atom" and a.predicate != "="}
    start |= {atom for atom, true in zip(task.atoms, task.initial, strict=True) if true}
    names = {entity: name.strip() for entity, name in tw_parts.names(list(kinds)).items()}
    rules = {
        name: [[_query(rule.condition), [_symbol(symbol) for symbol in rule.rhs]] for rule in alternatives]
        for name, alternatives in logic.grammar._rules.items()
    }
    feedbacks = {name: _symbols(action.feedback_rule) for name, action in logic.actions.items()}
    templates = {name: _symbols(action.template) for name, action in logic.actions.items()}
    parameters = {
        action.name: [parameter.name.strip("?") for parameter in action.parameters] for action in stated.actions
    }

    read = {atom[0] for alternatives in rules.values() for condition, _ in alternatives for atom in condition or ()}
    read |= set(_read(list(rules.values()))) | set(_read(list(templates.values())))
    read = {name.removeprefix("not_") for name in read}
    goal = task.reduced(task.goal)
    operators = []
    for name, needs, effects in task.operators:
        if any(literal in task.axioms for literal in needs):
            raise DataError(f"action {name} needs a derived fact, which compiled games do not know")
        operators.append((name, needs, effects))
    used = {v for _, needs, effects in operators for v, _ in (*needs, *(x for when, _ in effects for x in when))}
    used |= {v for one in goal for v, _ in one}
    kept = {atom for v, atom in enumerate(task.atoms) if v in used or atom[0] in read}
    kept |= {atom for atom in start if atom[0] in read}
    facts = sorted(kept)
    bit = {fact: place for place, fact in enumerate(facts)}

    def bits(literals: list[Literal], true: bool) -> list[int]:
        return sorted({bit[task.atoms[v]] for v, value in literals if value == true})

    order = {name: place for place, name in enumerate(feedbacks)}
    game = NativeGame.of_facts(facts, {bit[fact] for fact in start if fact in bit}, Phrases(rules, names))
    actions = []
    varying: set[int] = set()
    for name, needs, effects in operators:
        words = name.split()
        binding = dict(zip(parameters[words[0]], words[1:], strict=False))  # an "exists" adds parameters at the end
        command = game.say(templates[words[0]], binding).strip()
        changes = [
            [bits(when, True), bits(when, False), bit[task.atoms[v]], int(value)]
            for when, (v, value) in effects
            if task.atoms[v] in bit
        ]
        varying |= {change[2] for change in changes}
        actions.append([name, command, order[words[0]], bits(needs, True), bits(needs, False), changes])
    return Compiled(
        names=names,
        kinds=kinds,
        static=sorted(list(fact) for fact in start if fact[0] in STATIC),
        facts=[list(fact) for fact in facts],
        initial=sorted(bit[fact] for fact in start if fact in bit),
        varying=sorted({facts[place][0] for place in varying}),
        actions=actions,
        feedbacks=list(feedbacks.values()),
        parameters=parameters,
        goal=[[bits(one, True), bits(one, False)] for one in goal],
        rules=rules,
        intro=game.say([["rule", "intro"]], {}),
    )
