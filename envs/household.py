"""Household games generated from a seed: ALFWorld's own rules and text on TextWorld, with nothing to download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sharpo.envs import lexicon, scenes
from sharpo.envs.oracle import Goal
from sharpo.envs.textgames import Engine, TextGameEnv
from sharpo.envs.tw_parts import require_textworld

from sharpo.env import ActionFormat, Split
from sharpo.episode import Task
from sharpo.errors import ConfigError
from sharpo.seeding import derive

_TRIES = 1000


class Household(TextGameEnv):
    """Six families of household tasks in generated rooms; every task is checked to be fair and solvable.

    Args:
        receptacles: receptacles in the room; more is harder.
        objects: objects in the room, the task's own included; more is harder.
        object_types: classes that objects are drawn from; None for all that the rooms can hold.
        max_turns: turns until the episode is truncated.
        action_format: ``plain`` or ``tags``.
        invalid_penalty: subtracted from the return of a turn whose text held no action.
        reward: reward of the winning turn.
        engine: ``native`` (compiled games, plain Python) or ``textworld`` (TextWorld itself).
        strict: an action that the game does not accept counts as invalid, like a text without an action.

    Raises:
        ConfigError: a knob is out of range, a class is unknown, or TextWorld or alfworld is not installed.

    Example:
        >>> env = Household(receptacles=6, objects=4, max_turns=12)
        >>> task = env.task("val", 2)
        >>> task.id, task.family
        ('household/val/2', 'clean')
        >>> text, info = env.reset(options={"task": task})
        >>> task.instruction in text
        True
    """

    def __init__(
        self,
        receptacles: int = 8,
        objects: int = 8,
        object_types: Sequence[str] | None = None,
        max_turns: int = 30,
        action_format: ActionFormat = "tags",
        invalid_penalty: float = 0.0,
        reward: float = 10.0,
        engine: Engine = "native",
        strict: bool = False,
    ) -> None:
        super().__init__(max_turns, action_format, invalid_penalty, reward, engine, strict)
        require_textworld()  # games are made on the spot, through TextWorld's translator
        if not 4 <= receptacles <= scenes.MOST_RECEPTACLES:
            raise ConfigError(f"env.receptacles must be 4 to {scenes.MOST_RECEPTACLES}, got {receptacles}")
        if not 2 <= objects <= 20:
            raise ConfigError(f"env.objects must be 2 to 20, got {objects}")
        known = scenes.known_objects()
        self.object_types = tuple(known if object_types is None else object_types)
        unknown = sorted(set(self.object_types) - set(known))
        if unknown:
            raise ConfigError(f"env.object_types has unknown classes {unknown}; known: {', '.join(known)}")
        barren = [
            name
            for name in self.families
            if not any(scenes.wishes_of(name, room, self.object_types) for room in scenes.ROOMS_OF[name])
        ]
        if barren:
            raise ConfigError(
                f"env.object_types={list(self.object_types)} allows no task of the families {', '.join(barren)}: add "
                "classes that can be heated, cooled and cleaned (Mug, Apple)"
            )
        self.receptacles = receptacles
        self.objects = objects

    def num_tasks(self, split: Split) -> int | None:
        """Return None: scenes are made from the index, endlessly many in either split."""
        self.check_split(split)

    def task(self, split: Split, index: int) -> Task:
        """Return task ``index``: families in turn, the scene from this place's own seeds; the first fair one counts.

        Raises:
            ConfigError: the object classes allow no task of the family.
        """
        self.check_split(split)
        family = self.families[index % len(self.families)]
        for attempt in range(_TRIES):
            seed = derive(0, "household", split, index, attempt)
            scene = scenes.make(family, seed, self.receptacles, self.objects, self.object_types)
            if scene is not None:
                return Task(f"household/{split}/{index}", family, scene.sentence, seed, scene.payload())
        raise ConfigError(
            f"env.object_types={list(self.object_types)} allows no {family!r} task with {self.receptacles} "
            f"receptacles and {self.objects} objects: add classes that can be heated, cooled and cleaned (Mug, Apple)"
        )

    def lexicon(self) -> tuple[str, ...]:
        """Return the words and phrases that cover every text of these games, longest first."""
        return lexicon.household(self.object_types, self.receptacles)

    def _game_data(self, task: Task) -> Mapping[str, Any]:
        scene = scenes.Scene.from_payload(task.payload)
        stated = scenes.rules()
        return {
            "pddl_domain": stated.domain,
            "grammar": stated.grammar.replace("UNKNOWN GOAL", scene.sentence),
            "pddl_problem": scenes.problem(scene),
        }

    def _goal(self, task: Task) -> Goal:
        return Goal(task.family, task.payload["target"], task.payload["destination"])
