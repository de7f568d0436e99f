"""The household expert: a few lines per family over a game's facts, either informed or limited to what was shown."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Fact = tuple[str, ...]
"""A true fact: predicate name, then entity ids."""

_TREATMENT = {
    "clean": ("cleanobject", "sinkbasintype", "isclean"),
    "heat": ("heatobject", "microwavetype", "ishot"),
    "cool": ("coolobject", "fridgetype", "iscool"),
}


class TextGame(Protocol):
    """A game that is played state by state; the states are the engine's own values."""

    intro: str
    name: Mapping[str, str]
    """What an entity is called."""
    kind: Mapping[str, str]
    """The type of an entity."""
    static: frozenset[Fact]
    """What never changes."""
    start: Any

    def options(self, state: Any) -> Mapping[str, Any]:
        """Return the admissible commands, sorted, with the option that each stands for."""
        ...

    def words(self, option: Any) -> tuple[str, ...]:
        """Return the name of an option's action and the entities it is about."""
        ...

    def play(self, state: Any, option: Any) -> tuple[str, Any]:
        """Return the game's answer and the state after it."""
        ...

    def won(self, state: Any) -> bool:
        """Return the verdict."""
        ...

    def facts(self, state: Any) -> frozenset[Fact]:
        """Return what actions can change and is true now."""
        ...


@dataclass(frozen=True, slots=True)
class Goal:
    """What a task asks for: its family, the target class and the destination (for ``look`` the lamp) class."""

    family: str
    target: str
    destination: str


class Floor:
    """The part of a game that never changes: where receptacles stand, what they are, in the order they are listed.

    Args:
        game: the loaded game.
        goal: what its task asks for.
        open_first: the exploring expert looks at what stands open before it opens anything.
    """

    def __init__(self, game: TextGame, goal: Goal, open_first: bool = False) -> None:
        self.game = game
        self.goal = goal
        self.open_first = open_first
        self.location = {fact[1]: fact[2] for fact in game.static if fact[0] == "receptacleatlocation"}
        self.receptacles = tuple(sorted(self.location))
        self.openable = {fact[1] for fact in game.static if fact[0] == "openable"}
        types = {fact[1]: fact[2] for fact in game.static if fact[0] in ("receptacletype", "objecttype")}
        self.of_type = {kind: tuple(sorted(e for e in types if types[e] == kind)) for kind in set(types.values())}
        self._about: dict[Any, tuple[str, ...]] = {}
        self.listed = self._listed()

    def _listed(self) -> tuple[str, ...]:
        shown = re.findall(r"\ban? ([a-z]+ \d+)", self.game.intro.partition("Your task")[0])
        by_name = {self.game.name[receptacle].strip(): receptacle for receptacle in self.receptacles}
        return tuple(by_name[name] for name in shown if name in by_name)

    def about(self, option: Any) -> tuple[str, ...]:
        """Return the name of an option's action and the objects and receptacles it is about; remembered."""
        found = self._about.get(option)
        if found is None:
            name, *rest = self.game.words(option)
            things = (word for word in rest if self.game.kind.get(word) in ("object", "receptacle"))
            found = self._about[option] = (name, *things)
        return found

    def kind(self, name: str) -> tuple[str, ...]:
        """Return the entities of a class."""
        return self.of_type.get(f"{name.lower()}type", ())


class View:
    """One state read for the expert.

    Args:
        floor: the unchanging part.
        state: the engine's state.
        options: its admissible commands.
    """

    def __init__(self, floor: Floor, state: Any, options: Mapping[str, Any]) -> None:
        self.floor = floor
        self.options = options
        game = floor.game
        self.won = game.won(state)
        self.facts = game.facts(state)
        here = next(fact[2] for fact in self.facts if fact[0] == "atlocation")
        self.here = tuple(place for place in floor.receptacles if floor.location[place] == here)
        self.held = next((fact[2] for fact in self.facts if fact[0] == "holds"), None)
        self.inside: Mapping[str, str] = {fact[1]: fact[2] for fact in self.facts if fact[0] == "inreceptacle"}
        self.opened = {fact[1] for fact in self.facts if fact[0] == "opened"}

    @functools.cached_property
    def commands(self) -> dict[tuple[str, ...], str]:
        """The command of each admissible action, by its name and the things it is about."""
        about, found = self.floor.about, {}
        for command, option in self.options.items():
            found.setdefault(about(option), command)
        return found

    def closed(self, place: str) -> bool:
        """Return True when a receptacle hides what it holds."""
        return place in self.floor.openable and place not in self.opened

    def shown(self) -> frozenset[str]:
        """Return the receptacles whose content the agent sees now."""
        return frozenset(place for place in self.here if not self.closed(place))


def advise(now: View, seen: frozenset[str] | None) -> str | None:
    """Return the expert's next command, None when the game is won.

    Args:
        now: the present state.
        seen: receptacles whose content the agent has been shown; None for the informed expert, which knows all.
    """
    return None if now.won else _next(now, frozenset(now.floor.receptacles) if seen is None else seen)


def _next(now: View, known: frozenset[str]) -> str | None:
    floor, goal = now.floor, now.floor.goal
    targets = floor.kind(goal.target)
    if now.held is not None:
        if now.held not in targets:
            return _set_down(now)
        return _use_lamp(now, known) if goal.family == "look" else _deliver(now, now.held)
    goals = floor.kind(goal.destination) if goal.family != "look" else ()
    home = _home(now, goals)
    ready = {fact[1] for fact in now.facts if fact[0] == _TREATMENT.get(goal.family, ("", "", ""))[2]}
    wanted = [
        item
        for item in targets
        if now.inside.get(item) in known and not (goal.family == "pick2" and now.inside[item] == home)
    ]
    wanted.sort(key=lambda item: (item not in ready, now.inside[item] not in now.here))
    if not wanted:
        return _explore(now, known)
    place = now.inside[wanted[0]]
    return _approach(now, place) or now.commands.get(("pickupobject", wanted[0], place))


def _home(now: View, goals: tuple[str, ...]) -> str:
    """Return the destination receptacle: the one that holds most targets, then the first that is listed."""
    targets = now.floor.kind(now.floor.goal.target)
    order = now.floor.listed
    return max(
        goals,
        key=lambda place: (sum(now.inside.get(item) == place for item in targets), -order.index(place)),
        default="",
    )


def _go(now: View, place: str) -> str | None:
    return None if place in now.here else now.commands.get(("gotolocation", place))


def _approach(now: View, place: str) -> str | None:
    """Return the command that leads to an open receptacle; None when the agent stands at it and it is open."""
    return _go(now, place) or (now.commands.get(("openobject", place)) if now.closed(place) else None)


def _explore(now: View, known: frozenset[str]) -> str | None:
    left = [place for place in now.floor.listed if place not in known]
    later = now.floor.openable if now.floor.open_first else frozenset[str]()
    left.sort(key=lambda place: (place not in now.here, place in later))
    return _approach(now, left[0]) if left else None


def _deliver(now: View, item: str) -> str | None:
    floor, goal = now.floor, now.floor.goal
    if goal.family in _TREATMENT:
        verb, appliance, done = _TREATMENT[goal.family]
        if (done, item) not in now.facts:
            for place in now.here:
                if (verb, place, item) in now.commands:
                    return now.commands[verb, place, item]
            return _go(now, floor.of_type[appliance][0])
    home = _home(now, floor.kind(goal.destination))
    return _approach(now, home) or now.commands.get(("putobject", item, home))


def _use_lamp(now: View, known: frozenset[str]) -> str | None:
    lamps = [lamp for lamp in now.floor.kind(now.floor.goal.destination) if now.inside.get(lamp) in known]
    if not lamps:
        return _explore(now, known)
    place = now.inside[lamps[0]]
    return _go(now, place) or now.commands.get(("toggleobject", lamps[0], place))


def _set_down(now: View) -> str | None:
    """Put a thing that is not wanted where it may lie: here, else at the first receptacle that takes its class.

    Some things fit nowhere (a paper towel roll): who takes one has lost the game, and the expert looks around.
    """
    for (verb, *_), command in now.commands.items():
        if verb == "putobject":
            return command
    assert now.held is not None
    static, held = now.floor.game.static, now.held
    kinds = {fact[2] for fact in static if fact[0] == "objecttype" and fact[1] == held}
    fit = {fact[1] for fact in static if fact[0] == "cancontain" and fact[2] in kinds}
    spots = [place for kind in fit for place in now.floor.of_type.get(kind, ())]
    spots.sort(key=lambda place: (place not in now.here, now.closed(place), place))
    return _approach(now, spots[0]) if spots else "look"
