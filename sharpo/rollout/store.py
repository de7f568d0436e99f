"""Episodes on disk: one JSON line each."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sharpo.episode import Episode
from sharpo.errors import DataError


def check_folder(folder: str | Path, setting: str = "data.save_rollouts") -> None:
    """Make a folder and write in it, so that one that cannot be written is found at start.

    Args:
        folder: of saved episodes, or of what another setting names.
        setting: its name in the message.

    Raises:
        DataError: when it cannot be made or written.
    """
    if not str(folder).strip():
        raise DataError(f"{setting}={folder!r}: must be a folder, or null to save none")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(f"{setting}={folder} cannot be written ({error.strerror}): choose another folder") from error


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
        DataError: when the file is absent, is no text, or a line is not an episode.
    """
    target = Path(path)
    if not target.is_file():
        raise DataError(f"no saved rollouts at {target}; give data.save_rollouts when you train to write some")
    try:
        text = target.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{target} cannot be read as text ({error}); give a file of data.save_rollouts") from error
    groups: dict[int, list[Episode]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            raw = json.loads(line)
            groups.setdefault(raw["group"], []).append(Episode.from_json(json.dumps(raw["episode"])))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{target}, line {number}: not a saved episode ({error})") from error
    return [groups[g] for g in sorted(groups)]
