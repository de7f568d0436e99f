"""Compiled games on disk and in memory: each game is compiled once per machine, and loaded once per process."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from sharpo.envs.native.compiled import FORMAT, Compiled
from sharpo.envs.native.engine import NativeGame

GAMES_KEPT = 128
"""Loaded games that one process keeps; the least recently begun one goes first."""


def folder() -> Path:
    """Return where compiled games are kept: ``$SHARPO_CACHE/games``, else ``~/.cache/sharpo/games``."""
    return Path(os.environ.get("SHARPO_CACHE") or "~/.cache/sharpo").expanduser() / "games"


@functools.cache
def versions() -> str:
    """Return what a compiled game depends on besides its source."""
    parts = [f"format {FORMAT}"]
    for package in ("textworld", "fast-downward-textworld"):
        try:
            parts.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            parts.append(f"{package} absent")
    return ", ".join(parts)


def key(source: bytes) -> str:
    """Return the name of a compiled game: a hash of its source and of the versions that compiled it."""
    return hashlib.sha256(versions().encode() + b"\0" + source).hexdigest()[:32]


def compiled(source: bytes, parse: Callable[[bytes], Mapping[str, Any]]) -> Compiled:
    """Return a game from its file, or compile it and keep the file.

    Args:
        source: the game's own bytes.
        parse: the game as data: ``pddl_domain``, ``grammar``, ``pddl_problem``.
    """
    path = folder() / f"{key(source)}.json.gz"
    if path.exists():
        return Compiled.load(path)
    from sharpo.envs.native.translate import compile_game

    made = compile_game(parse(source))
    made.save(path)
    return made


def is_compiled(source: bytes) -> bool:
    """Return True when the game's compiled file is there."""
    return (folder() / f"{key(source)}.json.gz").exists()


def in_memory(data: Mapping[str, Any]) -> NativeGame:
    """Return a game that is made on the spot and kept nowhere."""
    from sharpo.envs.native.translate import compile_game

    return NativeGame(compile_game(data))
