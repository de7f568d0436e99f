"""Household scenes from a seed: a room, its receptacles and objects, one task; and their PDDL problem."""

from __future__ import annotations

import functools
import importlib.util
import random
import runpy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharpo.errors import ConfigError

FAMILIES = ("pick", "look", "clean", "heat", "cool", "pick2")
GOALS = {
    "pick": "pick_and_place_simple",
    "look": "look_at_obj_in_light",
    "clean": "pick_clean_then_place_in_recep",
    "heat": "pick_heat_then_place_in_recep",
    "cool": "pick_cool_then_place_in_recep",
    "pick2": "pick_two_obj_and_place",
}
APPLIANCE = {"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"}
_ABILITY = {"clean": "Cleanable", "heat": "Heatable", "cool": "Coolable"}
LAMPS = ("DeskLamp", "FloorLamp")
_LAMP_STANDS = frozenset({"Desk", "SideTable", "Dresser", "CoffeeTable", "TVStand", "Shelf"})
ROOMS: Mapping[str, Mapping[str, int]] = {
    "kitchen": {
        "CounterTop": 2,
        "Cabinet": 3,
        "Drawer": 3,
        "Fridge": 1,
        "Microwave": 1,
        "SinkBasin": 1,
        "GarbageCan": 1,
        "CoffeeMachine": 1,
        "StoveBurner": 2,
        "DiningTable": 1,
        "Shelf": 2,
    },
    "livingroom": {
        "Sofa": 1,
        "ArmChair": 2,
        "CoffeeTable": 1,
        "SideTable": 2,
        "Dresser": 1,
        "Drawer": 2,
        "Shelf": 2,
        "GarbageCan": 1,
    },
    "bedroom": {"Bed": 1, "Desk": 2, "SideTable": 2, "Dresser": 1, "Drawer": 3, "Shelf": 2, "GarbageCan": 1, "Safe": 1},
    "bathroom": {"CounterTop": 1, "SinkBasin": 2, "Toilet": 1, "Cabinet": 3, "Shelf": 1, "GarbageCan": 1, "Cart": 1},
}
"""Receptacle classes of each room with the most of each that a room of up to ten receptacles holds."""
_SEVERAL = frozenset({"Cabinet", "CounterTop", "Drawer", "Shelf", "SideTable", "StoveBurner"})
"""Classes of which a larger room holds more."""
ROOMS_OF = {
    "pick": ("kitchen", "livingroom", "bedroom", "bathroom"),
    "look": ("bedroom", "livingroom"),
    "clean": ("kitchen", "bathroom"),
    "heat": ("kitchen",),
    "cool": ("kitchen",),
    "pick2": ("kitchen", "livingroom", "bedroom", "bathroom"),
}
MOST_RECEPTACLES = 20


def limits(room: str, receptacles: int) -> dict[str, int]:
    """Return the most of each receptacle class that a room of some size holds."""
    scale = -(-receptacles // 10)
    return {kind: most * (scale if kind in _SEVERAL else 1) for kind, most in ROOMS[room].items()}


@dataclass(frozen=True, slots=True)
class Rules:
    """What ALFWorld's package states: what holds what, what can be heated, the goals, domain and grammar."""

    holds: Mapping[str, frozenset[str]]
    able: Mapping[str, frozenset[str]]
    objects: frozenset[str]
    openable: frozenset[str]
    goals: Mapping[str, Any]
    domain: str
    grammar: str


@functools.cache
def rules() -> Rules:
    """Read the rules that the ``alfworld`` package ships, without importing it (its import makes a cache folder).

    Raises:
        ConfigError: the package is not installed.
    """
    spec = importlib.util.find_spec("alfworld")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "household games need the rules that the alfworld package ships: pip install 'sharpo[alfworld]' "
            "(Python 3.11 or 3.12)"
        )
    root = Path(spec.origin).parent
    constants = runpy.run_path(str(root / "gen" / "constants.py"))
    library = runpy.run_path(str(root / "gen" / "goal_library.py"))
    return Rules(
        holds={name: frozenset(held) for name, held in constants["VAL_RECEPTACLE_OBJECTS"].items()},
        able={name: frozenset(objects) for name, objects in constants["VAL_ACTION_OBJECTS"].items()},
        objects=frozenset(constants["OBJECTS"]),
        openable=frozenset(constants["OPENABLE_CLASS_LIST"]),
        goals={family: library["gdict"][goal] for family, goal in GOALS.items()},
        domain=(root / "data" / "alfred.pddl").read_text(encoding="utf-8"),
        grammar=(root / "data" / "alfred.twl2").read_text(encoding="utf-8"),
    )


@functools.cache
def known_objects() -> tuple[str, ...]:
    """Return every object class that generated scenes may hold, lamps left out."""
    places = {name for room in ROOMS.values() for name in room}
    held = set().union(*(rules().holds[place] for place in places))
    return tuple(sorted(name for name in held if not name.endswith("Sliced") and name not in LAMPS and name != "Box"))


@dataclass(frozen=True, slots=True)
class Scene:
    """A room and one task in it.

    Args:
        family: the task family.
        target: class of the object to bring.
        destination: receptacle class to bring it to; for ``look`` the lamp's class.
        receptacles: classes, one entry per receptacle.
        objects: (class, index of the receptacle it lies in).
        sentence: the task in words.
    """

    family: str
    target: str
    destination: str
    receptacles: tuple[str, ...]
    objects: tuple[tuple[str, int], ...]
    sentence: str

    def payload(self) -> dict[str, Any]:
        """Return the scene as plain JSON values."""
        return {
            "family": self.family,
            "target": self.target,
            "destination": self.destination,
            "receptacles": list(self.receptacles),
            "objects": [list(item) for item in self.objects],
            "sentence": self.sentence,
        }

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Scene:
        """Rebuild a scene from :meth:`payload`."""
        return cls(
            payload["family"],
            payload["target"],
            payload["destination"],
            tuple(payload["receptacles"]),
            tuple((name, place) for name, place in payload["objects"]),
            payload["sentence"],
        )

    def problems(self) -> list[str]:
        """Return why the scene is not a fair, solvable game; [] when it is."""
        holds, able = rules().holds, rules().able
        where = [place for name, place in self.objects if name == self.target]
        found = []
        if len(where) < (2 if self.family == "pick2" else 1):
            found.append("too few target objects")
        if self.family == "look":
            if not any(name == self.destination for name, _ in self.objects):
                found.append("no lamp")
        elif self.destination not in self.receptacles or self.target not in holds[self.destination]:
            found.append("nowhere to put the target")
        elif any(self.receptacles[place] == self.destination for place in where):
            found.append("a target lies at its destination already")
        if self.family in APPLIANCE and (
            APPLIANCE[self.family] not in self.receptacles or self.target not in able[_ABILITY[self.family]]
        ):
            found.append("the target cannot be treated")
        if any(name not in LAMPS and name not in holds[self.receptacles[place]] for name, place in self.objects):
            found.append("an object lies where it cannot")
        return found


def wishes_of(family: str, room: str, objects: Sequence[str]) -> list[tuple[str, str]]:
    """Return the (target, destination) pairs that a family allows in a room."""
    holds, able, places = rules().holds, rules().able, ROOMS[room]
    fit = [name for name in objects if any(name in holds[place] for place in places)]
    if family == "look":
        return [(name, lamp) for name in fit for lamp in (LAMPS[:1] if room == "bedroom" else LAMPS)]
    if family in _ABILITY:
        fit = [name for name in fit if name in able[_ABILITY[family]]]
    return [
        (name, place)
        for name in fit
        for place in places
        if name in holds[place]
        and place != APPLIANCE.get(family)
        and any(name in holds[other] for other in places if other not in (place, APPLIANCE.get(family)))
    ]


def make(family: str, seed: int, receptacles: int, count: int, objects: Sequence[str]) -> Scene | None:
    """Make the scene of a seed; None when this seed's draw is not a fair game (the caller takes the next seed)."""
    rng = random.Random(seed)  # noqa: S311
    holds = rules().holds
    rooms = [
        room
        for room in ROOMS_OF[family]
        if sum(limits(room, receptacles).values()) >= receptacles and wishes_of(family, room, objects)
    ]
    if not rooms:
        return None
    room = rng.choice(rooms)
    most = limits(room, receptacles)
    wishes = wishes_of(family, room, objects)
    target = rng.choice(sorted({name for name, _ in wishes}))
    destination = rng.choice([place for name, place in wishes if name == target])
    stands = [place for place in most if place in _LAMP_STANDS]
    need = [rng.choice(stands)] if family == "look" else [destination]
    need += [APPLIANCE[family]] if family in APPLIANCE else []
    sources = [place for place in most if target in holds[place] and place not in need]
    need += [rng.choice(sources)] if sources else []
    pool = list((Counter(most) - Counter(need)).elements())
    rng.shuffle(pool)
    shut = [place for place in pool if place in rules().openable]
    pool = [place for place in pool if place not in rules().openable]
    pool += shut[receptacles // 5 :]  # what is closed costs two turns to search: a fifth of the room where it can be
    pool = shut[: receptacles // 5] + pool
    places = sorted((need + pool)[:receptacles])
    items: list[tuple[str, int]] = []

    def put(name: str, avoid: str, fits: frozenset[str] | None = None) -> None:
        spots = [
            at for at, kind in enumerate(places) if kind != avoid and (kind in fits if fits else name in holds[kind])
        ]
        if spots:
            items.append((name, rng.choice(spots)))

    for _ in range(2 if family == "pick2" else 1):
        put(target, destination)
    if family == "look":
        put(destination, "", _LAMP_STANDS)
    others = [name for name in objects if name != target and any(name in holds[place] for place in places)]
    rng.shuffle(others)
    for name in others[: max(0, count - len(items))]:
        put(name, "")
    words = rng.choice(rules().goals[family]["templates"])
    lower = {"obj": target.lower(), "recep": destination.lower(), "toggle": destination.lower()}
    scene = Scene(family, target, destination, tuple(places), tuple(items), words.format(**lower, mrecep=""))
    return scene if len(places) == receptacles and not scene.problems() else None


def problem(scene: Scene) -> str:
    """Return the scene as a PDDL problem that declares what it uses and no more."""
    stated, known = rules(), Counter[str]()

    def name(kind: str) -> str:
        known[kind] += 1
        stem, basin, _ = kind.partition("Basin")
        return f"{stem}_bar_{known[kind]:02d}" + (f"_bar_{kind}" if basin else "")

    places = [(kind, name(kind)) for kind in scene.receptacles]
    things = [(kind, name(kind), places[at][1], at + 1) for kind, at in scene.objects]
    kinds = sorted({kind for kind, *_ in things} | {"Knife", "ButterKnife", scene.target})
    goal_place = {scene.destination} - set(LAMPS)
    rooms = sorted({kind for kind, _ in places} | {"SinkBasin", "Microwave", "Fridge"} | goal_place)
    lines = [f"(define (problem {scene.family})", "(:domain alfred)", "(:objects", "agent1 - agent"]
    lines += [f"{kind}Type - otype" for kind in kinds] + [f"{kind}Type - rtype" for kind in rooms]
    lines += [f"{item} - object" for _, item, *_ in things] + [f"{item} - receptacle" for _, item in places]
    lines += [f"loc_bar_{at:02d} - location" for at in range(len(places) + 1)]
    lines += [")", "(:init", "(atLocation agent1 loc_bar_00)"]
    for at, (kind, item) in enumerate(places, start=1):
        lines += [f"(receptacleType {item} {kind}Type)", f"(receptacleAtLocation {item} loc_bar_{at:02d})"]
        lines += [f"(openable {item})"] if kind in stated.openable else []
    for kind, item, place, at in things:
        lines += [
            f"(objectType {item} {kind}Type)",
            f"(inReceptacle {item} {place})",
            f"(objectAtLocation {item} loc_bar_{at:02d})",
        ]
        lines.append(f"(toggleable {item})" if kind in LAMPS else f"(pickupable {item})")
        for ability in ("Heatable", "Coolable", "Cleanable", "Sliceable"):
            lines += [f"({ability.lower()} {item})"] if kind in stated.able[ability] else []
    held = {kind for kind, *_ in things if kind not in LAMPS}
    lines += [
        f"(canContain {place}Type {kind}Type)"
        for place in sorted(set(scene.receptacles))
        for kind in sorted(held & stated.holds[place])
    ]
    goal = stated.goals[scene.family]["pddl"]
    words = {"obj": scene.target, "recep": scene.destination, "toggle": scene.destination, "mrecep": ""}
    return "\n".join([*lines, ")", goal.format(**words).replace("#", "-")])
