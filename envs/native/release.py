"""ALFWorld's games on disk: which there are, whether they are the official ones, and compiling them all."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from sharpo.envs.native import cache
from sharpo.envs.scenes import FAMILIES, GOALS

from sharpo.errors import DataError

GAME = "game.tw-pddl"
FAMILY_OF = {goal: family for family, goal in GOALS.items()}
OFFICIAL = {
    "train": (790, 308, 650, 459, 533, 813),
    "valid_seen": (35, 13, 27, 16, 25, 24),
    "valid_unseen": (24, 18, 31, 23, 21, 17),
}
"""Games of the official release by split, in the order of ``FAMILIES``."""
_FORMS = {"put": b"put {o} in/on {r}", "move": b"move {o} to {r}"}
_TAIL_BYTES = 4096
_GET = "python -m sharpo.data alfworld download"


def find(data: str | None) -> Path:
    """Return the folder that holds the splits: ``data``, else ``$ALFWORLD_DATA``, else ``~/.cache/alfworld``."""
    root = Path(data or os.environ.get("ALFWORLD_DATA") or "~/.cache/alfworld").expanduser()
    inner = sorted(path for path in root.glob("json_2.1.*") if path.is_dir())
    return inner[0] if inner and not any((root / split).is_dir() for split in OFFICIAL) else root


def _solvable(path: Path) -> bool:
    """Read the ``solvable`` flag from the end of a game file, where it stands; from the whole file otherwise."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        found = re.search(rb'"solvable": *(true|false)', file.read())
    if found is not None:
        return found.group(1) == b"true"
    return bool(json.loads(path.read_text(encoding="utf-8")).get("solvable"))


@functools.lru_cache(maxsize=16)
def games(folder: Path) -> tuple[str, ...]:
    """Return the games of a split as sorted relative paths; sliced, movable-receptacle and unsolvable ones left out."""
    found = []
    for path in folder.glob(f"*/*/{GAME}"):
        task = path.parent.parent.name
        if "movable" in task or "Sliced" in task or task.split("-")[0] not in FAMILY_OF:
            continue
        if _solvable(path):
            found.append(path.parent.relative_to(folder).as_posix())
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class Split:
    """What one split on disk is.

    Args:
        name: of its folder.
        families: games by family, in the order of ``FAMILIES``.
        forms: games by command form, ``put`` or ``move``; with ``+help`` where the game knows ``help``.
        fingerprint: a hash of every game's path and content.
    """

    name: str
    families: tuple[int, ...]
    forms: dict[str, int]
    fingerprint: str

    @property
    def official(self) -> bool:
        """True when the counts by family are those of the official release."""
        return self.families == OFFICIAL[self.name]


def inspect(root: Path, split: str, note: Callable[[int, int], None] = lambda *_: None) -> Split:
    """Read every game of a split.

    Args:
        root: folder that holds the splits.
        split: ``train``, ``valid_seen`` or ``valid_unseen``.
        note: told (games read, games there) as it goes.

    Raises:
        DataError: there are no games, or games of two command forms.
    """
    names = games(root / split)
    if not names:
        games.cache_clear()
        raise DataError(f"no ALFWorld games in {root / split}: give the folder that holds {split}/, or run `{_GET}`")
    families: Counter[str] = Counter()
    forms: Counter[str] = Counter()
    whole = hashlib.sha256()
    for number, name in enumerate(names, 1):
        content = (root / split / name / GAME).read_bytes()
        families[FAMILY_OF[name.split("-")[0]]] += 1
        form = next((form for form, words in _FORMS.items() if words in content), "unknown")
        forms[form + ("+help" if b"action help" in content else "")] += 1
        whole.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
        note(number, len(names))
    if len(forms) > 1 or "unknown" in forms:
        raise DataError(
            f"{root / split} mixes games of several releases ({dict(forms)}): agents trained on one command form fail "
            f"on the other; keep one release, for example by `{_GET}` into an empty folder"
        )
    return Split(split, tuple(families[f] for f in FAMILIES), dict(forms), whole.hexdigest()[:16])


def compile_split(root: Path, split: str, workers: int) -> Iterator[tuple[int, int]]:
    """Compile the games of a split that are not compiled yet, in processes; yield (done, all) as it goes.

    It can be stopped and begun again at any time: what is compiled stays.
    """
    names = games(root / split)
    left = [name for name in names if not cache.is_compiled((root / split / name / GAME).read_bytes())]
    done = len(names) - len(left)
    yield done, len(names)
    if not left:
        return
    with ProcessPoolExecutor(max(1, workers), mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_compile, str(root / split / name / GAME)) for name in left]
        for job in as_completed(jobs):
            job.result()
            done += 1
            yield done, len(names)


def _compile(path: str) -> None:
    cache.compiled(Path(path).read_bytes(), json.loads)
