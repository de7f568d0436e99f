"""Plays a compiled game: a state is two integers, so keeping one, going back to one and sharing one cost nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sharpo.envs.native.compiled import Compiled
from sharpo.envs.native.phrases import Phrases, Symbol

NOTHING = "Nothing happens."
HERE = "atlocation"
"""The predicate of where the agent stands: actions are filed under it."""


class State(NamedTuple):
    """What is true, and what an action has said to be false (TextWorld's text can tell that from never said)."""

    true: int
    denied: int


class Action(NamedTuple):
    """One ground action with its masks."""

    place: int
    command: str
    needs: int
    forbids: int


def mask(bits: Iterable[int]) -> int:
    """Return an integer with these bits set.

    Example:
        >>> mask([0, 3])
        9
    """
    out = 0
    for bit in bits:
        out |= 1 << bit
    return out


class NativeGame:
    """A game for any number of episodes and threads at once: it is never changed by playing.

    Args:
        compiled: the game.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.name, self.kind, self.intro = compiled.names, compiled.kinds, compiled.intro
        self.static = frozenset(tuple(fact) for fact in compiled.static)
        self._index(compiled.facts, Phrases(compiled.rules, compiled.names))
        self.start = State(mask(compiled.initial), 0)
        self._varying = 0
        for predicate in compiled.varying:
            self._varying |= self._of[predicate]
        self.goal = tuple((mask(needs), mask(forbids)) for needs, forbids in compiled.goal)
        self._filed: dict[int, list[int]] = {}
        here = {bit for bit, fact in enumerate(compiled.facts) if fact[0] == HERE}
        self._places = mask(here)
        for place, action in enumerate(compiled.actions):
            at = next((bit for bit in action[3] if bit in here), -1)
            self._filed.setdefault(at, []).append(place)
        self._ready: dict[int, tuple[Action, ...]] = {}

    @classmethod
    def of_facts(cls, facts: Sequence[Sequence[str]], true: Iterable[int], phrases: Phrases) -> NativeGame:
        """Return a game that can only speak, for the compiler."""
        game = cls.__new__(cls)
        game._index(facts, phrases)
        game.start = State(mask(true), 0)
        return game

    def _index(self, facts: Sequence[Sequence[str]], phrases: Phrases) -> None:
        self._facts = [tuple(fact) for fact in facts]
        self._phrases = phrases
        self._of: dict[str, int] = {}
        self._with: dict[tuple[str, int, str], int] = {}
        for bit, (predicate, *arguments) in enumerate(facts):
            self._of[predicate] = self._of.get(predicate, 0) | 1 << bit
            for place, argument in enumerate(arguments):
                key = (predicate, place, argument)
                self._with[key] = self._with.get(key, 0) | 1 << bit

    # -- playing ---------------------------------------------------------------------------------------------------
    def options(self, state: State) -> dict[str, int]:
        """Return the admissible commands, sorted, with the action that each stands for."""
        true = state.true
        found: dict[str, int] = {}
        for at in (self._bits(true & self._places), (-1,)):
            for file in at:
                for place, command, needs, forbids in self._file(file):
                    if true & needs == needs and not true & forbids:
                        found.setdefault(command, place)
        return dict(sorted(found.items()))

    def play(self, state: State, option: int) -> tuple[str, State]:
        """Return the answer to an action and the state after it."""
        words, _, feedback, _, _, effects = self.compiled.actions[option]
        true, denied = state
        for needs, forbids, bit, value in effects:
            if needs and not all(state.true >> b & 1 for b in needs):
                continue
            if forbids and any(state.true >> b & 1 for b in forbids):
                continue
            one = 1 << bit
            true, denied = (true | one, denied & ~one) if value else (true & ~one, denied | one)
        after = State(true, denied)
        name, *arguments = words.split()
        binding = dict(zip(self.compiled.parameters[name], arguments, strict=False))
        return self.say(self.compiled.feedbacks[feedback], binding, after), after

    def won(self, state: State) -> bool:
        """Return the verdict."""
        true = state.true
        return any(true & needs == needs and not true & forbids for needs, forbids in self.goal)

    def say(self, symbols: Sequence[Symbol], binding: Mapping[str, str], state: State | None = None) -> str:
        """Return a text of the game's grammar in a state."""
        return self._phrases.derive(symbols, _Now(self, state or self.start), dict(binding))

    def words(self, option: int) -> tuple[str, ...]:
        """Return the name and the arguments of an action."""
        return tuple(self.compiled.actions[option][0].split())

    def facts(self, state: State) -> frozenset[tuple[str, ...]]:
        """Return the facts of a state that actions can change, as plain tuples."""
        return frozenset(self._facts[bit] for bit in self._bits(state.true & self._varying))

    def matching(self, state: State, predicate: str, known: Sequence[str | None]) -> Iterator[tuple[str, ...]]:
        """Yield the arguments of true facts in sorted order; ``not_x`` are facts that an action has denied."""
        denied = predicate.startswith("not_") and predicate not in self._of
        name = predicate[4:] if denied else predicate
        bits = (state.denied if denied else state.true) & self._of.get(name, 0)
        for place, argument in enumerate(known):
            if argument is not None:
                bits &= self._with.get((name, place, argument), 0)
        for bit in self._bits(bits):
            yield self._facts[bit][1:]

    # -- filing ----------------------------------------------------------------------------------------------------
    def _file(self, at: int) -> tuple[Action, ...]:
        found = self._ready.get(at)
        if found is None:
            actions = self.compiled.actions
            found = self._ready[at] = tuple(
                Action(place, actions[place][1], mask(actions[place][3]), mask(actions[place][4]))
                for place in self._filed.get(at, ())
            )
        return found

    @staticmethod
    def _bits(bits: int) -> Iterator[int]:
        while bits:
            low = bits & -bits
            yield low.bit_length() - 1
            bits ^= low

    def __getstate__(self) -> dict[str, Any]:
        return {"compiled": self.compiled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["compiled"])


class _Now:
    """A state's facts as the grammar asks for them."""

    __slots__ = ("game", "state")

    def __init__(self, game: NativeGame, state: State) -> None:
        self.game, self.state = game, state

    def matches(self, predicate: str, known: Sequence[str | None]) -> Iterator[tuple[str, ...]]:
        """Yield sorted arguments."""
        return self.game.matching(self.state, predicate, known)
