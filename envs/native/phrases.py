"""A game's text grammar without TextWorld: symbols, conditions and queries over a state's facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from sharpo.errors import DataError

Symbol = Any
"""A string (literal text), or a list that begins with its kind: ``["rule", name]``, ``["value", [part, ...]]``,
``["each", symbol, query or None]``, ``["list", symbol]``."""
Query = Sequence[Sequence[Any]]
"""Atoms ``[predicate, [placeholder, ...]]``; all must hold at once, for different entities."""
Binding = dict[str, str]


class Facts(Protocol):
    """What is true in a state."""

    def matches(self, predicate: str, known: Sequence[str | None]) -> Iterator[tuple[str, ...]]:
        """Yield the true facts' arguments in sorted order; ``known`` fixes some of them."""
        ...


def solve(query: Query, facts: Facts, binding: Binding) -> Iterator[Binding]:
    """Yield every way to make all atoms of a query true; different placeholders are different entities."""
    if not query:
        yield binding
        return
    (predicate, places), rest = query[0], query[1:]
    used = set(binding.values())
    for arguments in facts.matches(predicate, [binding.get(place) for place in places]):
        fresh: Binding = {}
        for place, entity in zip(places, arguments, strict=True):
            held = binding.get(place) or fresh.get(place)
            if held is None:
                if entity in used or entity in fresh.values():
                    break
                fresh[place] = entity
            elif held != entity:
                break
        else:
            yield from solve(rest, facts, binding | fresh if fresh else binding)


class Phrases:
    """Derives text by rules.

    Args:
        rules: alternatives by rule name, each ``[condition or None, symbols]``; the first whose condition holds counts.
        names: what an entity is called.
    """

    def __init__(self, rules: Mapping[str, Sequence[Sequence[Any]]], names: Mapping[str, str]) -> None:
        self.rules = rules
        self.names = names

    def derive(self, symbols: Sequence[Symbol], facts: Facts, binding: Binding) -> str:
        """Return the text of a sequence of symbols."""
        return "".join(self._derive(symbol, facts, binding) for symbol in symbols)

    def _derive(self, symbol: Symbol, facts: Facts, binding: Binding) -> str:
        if isinstance(symbol, str):
            return symbol
        kind = symbol[0]
        if kind == "rule":
            return self.derive(self._choose(symbol[1], facts, binding), facts, binding)
        if kind == "value":
            return "".join(self._value(part, binding) for part in symbol[1])
        if kind == "each":
            return "".join(self._items(symbol, facts, binding))
        items = self._items(symbol[1], facts, binding)
        if not items:
            return self._derive(["rule", "list_empty"], facts, binding)
        if len(items) == 1:
            return items[0]
        between = self._derive(["rule", "list_separator"], facts, binding)
        last = self._derive(["rule", "list_last_separator"], facts, binding)
        return between.join(items[:-1]) + last + items[-1]

    def _items(self, symbol: Symbol, facts: Facts, binding: Binding) -> list[str]:
        _, inner, query = symbol
        if query is None:
            return [self._derive(inner, facts, binding)]
        return [self._derive(inner, facts, found) for found in solve(query, facts, binding)]

    def _choose(self, name: str, facts: Facts, binding: Binding) -> Sequence[Symbol]:
        for condition, symbols in self.rules.get(name, ()):
            if condition is None or next(solve(condition, facts, binding), None) is not None:
                return symbols
        raise DataError(f"the game's grammar has no rule for #{name}# in this state")

    def _value(self, part: Sequence[str], binding: Binding) -> str:
        kind, word = part
        if kind == "text":
            return word
        if kind == "article":
            return "a"
        return self.names[binding[word]] if kind == "name" else binding[word]
