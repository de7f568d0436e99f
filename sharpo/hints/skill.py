"""Short skill texts of the task's family as the hint of the teacher."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Literal, get_args

from sharpo.episode import EpisodeGroup
from sharpo.errors import ConfigError, DataError
from sharpo.hints.attempt import Tokenize, Wording, shorten
from sharpo.protocols import Hint

Families = Literal["own", "all"]
GENERAL = "general"
_SAME = "same as "


class SkillHint:
    """Shows what is useful in the environment in general and in the task's family (SDAR, arXiv 2605.15155: skills).

    The texts are data: ``general.txt`` and ``<family>.txt`` in a folder of the environment; the family is the task's
    own (``group.task.family``). A text that says ``same as NAME`` stands for another one. A hint over the budget is
    shortened by whole lines: the general text from its end until it is gone, then (``families=all``) the other
    families from the last, and the task's own family at the end, whose first two lines stay. What still does not fit
    is an empty hint.

    Args:
        skills: whose texts: an environment's name (``household``), its class (``sharpo.envs.household.Household``), or
            the path of a folder of texts (with a ``/``).
        families: the task's ``own``, or ``all`` of them, its own first.
        max_tokens: budget of the whole hint in tokens.
        wording: says which set of texts goes with it (``Wording.skills``).

    Raises:
        ConfigError: when there are no texts for the environment and the wording.
    """

    def __init__(
        self, skills: str, families: Families = "own", max_tokens: int = 4096, wording: Wording | None = None
    ) -> None:
        if families not in get_args(Families):
            raise ConfigError(f"hint.families must be one of {', '.join(get_args(Families))}; got {families!r}")
        if max_tokens < 1:
            raise ConfigError(f"hint.max_tokens must be >= 1, got {max_tokens}")
        self.families, self.max_tokens = families, max_tokens
        self.name, self.texts = load(skills, (wording or Wording()).skills)
        self._tokenize: Tokenize | None = None
        self._built: dict[tuple[str, int], Hint] = {}

    def build(self, group: EpisodeGroup, member: int, tokenize: Tokenize, room: int | None = None) -> Hint | None:
        """Return the same hint for every episode of a family; see :class:`sharpo.protocols.HintBuilder`.

        Raises:
            DataError: when there is no text for the task's family.
        """
        del member
        self.check_families([group.task.family])
        if self._tokenize != tokenize:
            self._tokenize, self._built = tokenize, {}
        hint = self._once(group.task.family, self.max_tokens, tokenize)
        return hint if room is None or len(hint.ids) <= room else self._once(group.task.family, room, tokenize)

    def check_families(self, families: Iterable[str]) -> None:
        """Refuse families without a text.

        Raises:
            DataError: naming the first, and the files that there are.
        """
        for family in families:
            if family not in self.texts or family == GENERAL:
                known = ", ".join(f"{name}.txt" for name in sorted(self.texts))
                raise DataError(
                    f"hint.skills={self.name}: there is no text for the family {family!r}; the folder has {known}. Add "
                    f"{family}.txt, or choose another hint"
                )

    def _once(self, family: str, budget: int, tokenize: Tokenize) -> Hint:
        if (family, budget) not in self._built:
            shown, order = self._lines(family)

            def text(level: int) -> str:
                gone = set(order[:level])
                return "".join(line for i, line in enumerate(shown) if i not in gone) + "\n"

            ids, shortened = shorten(text, range(len(order) + 1), budget, tokenize)
            self._built[family, budget] = Hint(ids, f"skill:{'all' if self.families == 'all' else family}", shortened)
        return self._built[family, budget]

    def _lines(self, family: str) -> tuple[list[str], list[int]]:
        """Return the lines that are shown, in order, and the indices in the order in which they may be left out."""
        others = {self.texts[name]: name for name in sorted(self.texts, reverse=True)}  # the same text is shown once
        for mine in (GENERAL, family):
            others.pop(self.texts.get(mine, ()), None)
        names = [GENERAL, family, *(sorted(others.values()) if self.families == "all" else [])]
        shown: list[str] = []
        places: dict[str, list[int]] = {}
        for name in names:
            lines = self.texts.get(name, ())
            places[name] = list(range(len(shown), len(shown) + len(lines)))
            shown += lines
        order = places[GENERAL][::-1]
        for name in reversed(names[2:]):
            order += places[name][::-1]
        return shown, order + places[family][:1:-1]


def load(skills: str, variant: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Return the folder's name and its texts by family as lines, from ``sharpo.envs`` or from a user's own folder.

    Args:
        skills: see :class:`SkillHint`.
        variant: subfolder of the texts for some wording; empty = the folder itself.

    Raises:
        ConfigError: when there are none.
    """
    root = resources.files("sharpo.envs") / "skills"
    if "/" in skills:
        name, folder = skills, Path(skills).expanduser()
    else:
        name = skills.rpartition(".")[2].lower()
        alias = root / f"{name}.txt"
        name = _same(alias.read_text(encoding="utf-8")) or name if alias.is_file() else name
        folder = root / name
    place = folder / variant if variant else folder
    found = {
        entry.name[:-4]: entry.read_text(encoding="utf-8").strip()
        for entry in (place.iterdir() if place.is_dir() else ())
        if entry.name.endswith(".txt")
    }
    if not set(found) - {GENERAL}:
        known = ", ".join(sorted(entry.name for entry in root.iterdir() if entry.is_dir()))
        kind = f" for the wording {variant!r}" if variant else ""
        raise ConfigError(
            f"hint.skills={skills}: there are no skill texts{kind} in {place}; environments with texts: {known}. "
            "Choose another hint, or give hint.skills=<folder>/ with <family>.txt files of your own"
        )
    texts = {family: found.get(_same(text) or family, text) for family, text in found.items()}
    return name, {family: tuple(f"{line}\n" for line in text.splitlines()) for family, text in texts.items()}


def _same(text: str) -> str | None:
    """Return the name that a text stands for, None when it is one itself."""
    return text.strip().removeprefix(_SAME) if text.startswith(_SAME) else None
