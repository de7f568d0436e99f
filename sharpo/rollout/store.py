"""Episodes on disk: one JSON line each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sharpo.episode import Episode
from sharpo.errors import DataError


def save(path: str | Path, groups: Sequence[Sequence[Episode]]) -> None:
    """Write groups of episodes as JSON lines ``{"group": g, "episode": {...}}``; the folder is made.

    Args:
        path: the file; replaced when it is there.
        groups: episodes by group.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(target.name + ".part")
    with draft.open("w", encoding="utf-8") as file:
        for g, group in enumerate(groups):
            for episode in group:
                file.write(f'{{"group":{g},"episode":{episode.to_json()}}}\n')
    draft.replace(target)


def load(path: str | Path) -> list[list[Episode]]:
    """Read what :func:`save` wrote.

    Raises:
        DataError: when the file is absent or a line is not an episode.
    """
    target = Path(path)
    if not target.is_file():
        raise DataError(f"no saved rollouts at {target}; give data.save_rollouts when you train to write some")
    groups: dict[int, list[Episode]] = {}
    for number, line in enumerate(target.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            raw = json.loads(line)
            groups.setdefault(raw["group"], []).append(Episode.from_json(json.dumps(raw["episode"])))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{target}, line {number}: not a saved episode ({error})") from error
    return [groups[g] for g in sorted(groups)]
