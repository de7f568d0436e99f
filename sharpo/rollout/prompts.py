"""Prompt templates: text files with named fields and one marker line where a hint is spliced in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Formatter

from sharpo.env import Observed
from sharpo.episode import Task, Turn
from sharpo.errors import ConfigError, DataError

MARKER = "{hint}"
FIELDS = ("task", "observation", "admissible", "history", "steps", "step")
NO_ACTION = "(no valid action)"


@dataclass(frozen=True, slots=True)
class Template:
    """One message to the policy: the text before and after the place of the hint; ``hinted`` is False without one."""

    name: str
    before: str
    after: str
    hinted: bool

    @classmethod
    def load(cls, name: str) -> Template:
        """Read ``prompts/<name>.txt`` of the package ``sharpo.envs``.

        Raises:
            ConfigError: for an unknown file, an unknown field or a second marker line.
        """
        folder = resources.files("sharpo.envs") / "prompts"
        path = folder / f"{name}.txt"
        if not path.is_file():
            known = sorted(entry.name[:-4] for entry in folder.iterdir() if entry.name.endswith(".txt"))
            raise ConfigError(f"prompt.template: there is no file envs/prompts/{name}.txt; known: {', '.join(known)}")
        return cls.parse(name, path.read_text(encoding="utf-8"))

    @classmethod
    def parse(cls, name: str, text: str) -> Template:
        """Split a template at its marker line and check its fields."""
        lines = text.strip("\n").split("\n")
        marks = [i for i, line in enumerate(lines) if line.strip() == MARKER]
        if len(marks) > 1:
            raise ConfigError(f"prompt.template: {name}.txt has {len(marks)} lines {MARKER}; one place is allowed")
        at = marks[0] if marks else 0
        before = "".join(line + "\n" for line in lines[:at])
        after = "\n".join(lines[at + 1 :] if marks else lines)
        unknown = {field for _, field, _, _ in Formatter().parse(before + after) if field is not None} - set(FIELDS)
        if unknown:
            raise ConfigError(f"prompt.template: {name}.txt uses {sorted(unknown)}; known fields: {', '.join(FIELDS)}")
        return cls(name, before.lstrip(), after.rstrip(), bool(marks))

    def fill(self, task: Task, turns: Sequence[Turn], observed: Observed, history: int) -> tuple[str, str]:
        """Return the message before and after the hint for the turn that follows ``turns``."""
        if "{admissible}" in self.before + self.after and not observed.admissible:
            raise DataError(
                f"prompt.template={self.name}: it lists the admissible actions, but the environment of {task.id} "
                "gave none; choose a template without {admissible}"
            )
        fields = {
            "task": task.instruction,
            "observation": observed.text.strip(),
            "admissible": quoted(observed.admissible),
            "history": past(turns, history),
            "steps": str(len(turns)),
            "step": str(len(turns) + 1),
        }
        return self.before.format_map(fields).lstrip(), self.after.format_map(fields).rstrip()


def quoted(admissible: Sequence[str]) -> str:
    r"""Return the admissible actions, one quoted action a line, ``help`` left out.

    Example:
        >>> quoted(["look", "help", "go to desk 1"])
        "['look'\n 'go to desk 1']"
    """
    return "[" + "\n ".join(f"'{action}'" for action in admissible if action != "help") + "]"


def past(turns: Sequence[Turn], history: int) -> str:
    """Return the last ``history`` (observation, action) pairs, one a line, numbered by turn."""
    first = max(0, len(turns) - history)
    return "\n".join(
        f"[Turn {first + i + 1}] saw: '{turn.observation.strip()}' did: '{turn.action or NO_ACTION}'"
        for i, turn in enumerate(turns[first:])
    )
