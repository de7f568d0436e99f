"""A compiled game: what its states, actions and texts are, as plain data in a small file."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sharpo.errors import DataError

FORMAT = 1
"""Raised whenever the meaning of a compiled file changes."""


def _shared(value: Any, pool: dict[Any, Any]) -> Any:
    """Return a value with tuples for lists and one object for all that is equal: a third of the memory."""
    if isinstance(value, dict):
        return {_shared(key, pool): _shared(one, pool) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        value = tuple([_shared(one, pool) for one in value])
    return pool.setdefault(value, value)


@dataclass(frozen=True, slots=True)
class Compiled:
    """One game. A *bit* is the place of a fact in ``facts``; they are sorted, so bit order is the order of the text.

    Args:
        names: what each entity is called.
        kinds: the type of each entity.
        static: ``[predicate, argument, ...]`` of the unchanging facts that the oracle reads.
        facts: ``[predicate, argument, ...]`` of every fact that text, actions or the goal read.
        initial: bits that are true at the start.
        varying: predicates that some action changes.
        actions: ``[words, command, feedback, needs, forbids, effects]`` in the engine's order: the ground action's
            name and arguments, the command text, index into ``feedbacks``, bits that must be true, bits that must be
            false, and effects ``[needs, forbids, bit, value]``.
        feedbacks: symbols of each feedback rule.
        parameters: parameter names by action name.
        goal: alternatives ``[needs, forbids]``; one of them true = won.
        rules: the grammar; see :class:`sharpo.envs.native.phrases.Phrases`.
        intro: the first text.
    """

    names: Mapping[str, str]
    kinds: Mapping[str, str]
    static: Sequence[Sequence[str]]
    facts: Sequence[Sequence[str]]
    initial: Sequence[int]
    varying: Sequence[str]
    actions: Sequence[Sequence[Any]]
    feedbacks: Sequence[Sequence[Any]]
    parameters: Mapping[str, Sequence[str]]
    goal: Sequence[Sequence[Sequence[int]]]
    rules: Mapping[str, Sequence[Sequence[Any]]]
    intro: str

    def __post_init__(self) -> None:
        pool: dict[Any, Any] = {}
        for name in self.__slots__:
            object.__setattr__(self, name, _shared(getattr(self, name), pool))

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}.{id(self):x}.part")
        text = json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":"))
        draft.write_bytes(gzip.compress(text.encode(), 6, mtime=0))
        draft.replace(path)

    @classmethod
    def load(cls, path: Path) -> Compiled:
        """Read a file.

        Raises:
            DataError: it is damaged, or of another format.
        """
        try:
            raw = json.loads(gzip.decompress(path.read_bytes()))
            found = raw.pop("format")
            if found != FORMAT:
                raise DataError(f"compiled game {path} has format {found}, this version reads {FORMAT}: delete it")
            return cls(**raw)
        except (OSError, EOFError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"compiled game {path} cannot be read ({error}): delete it, and it is made again") from None
