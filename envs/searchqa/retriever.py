"""Retrievers: what answers a search. In process over a corpus here; over HTTP in ``client``."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sharpo.envs.search.arrays import META
from sharpo.envs.search.bm25 import Bm25
from sharpo.envs.searchqa.questions import sample

from sharpo.errors import ConfigError, DataError, SharpoError

OFFSETS = "offsets.npy"
SMALL_BYTES = 256 * 2**20
"""Corpora up to this size are indexed on the spot, larger ones by a command."""


class RetrievalError(SharpoError):
    """A search could not be answered."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage that was found: its first line is its title.

    Args:
        id: the passage's id; empty when the retriever does not say.
        contents: title, line break, text.
        score: the retriever's; larger is better.
    """

    id: str
    contents: str
    score: float

    @property
    def title(self) -> str:
        """The first line, as it stands."""
        return self.contents.partition("\n")[0]

    @property
    def text(self) -> str:
        """Everything after the first line."""
        return self.contents.partition("\n")[2]


@runtime_checkable
class Retriever(Protocol):
    """Finds passages; may be shared by threads and pickled into worker processes."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the best passages of each query, best first, at most ``k``.

        Raises:
            RetrievalError: the search could not be done.
        """
        ...


class Bm25Retriever:
    """BM25 over a corpus of JSON lines with ``id`` and ``contents`` (title, line break, text), in this process.

    The index and the corpus are memory-mapped: all processes of a machine share one copy. Nothing is opened before the
    first search. A small corpus is indexed then; a large one by ``python -m sharpo.envs.searchqa.index``.

    Args:
        corpus: the file; None for the built-in sample.
        index: folder of its index; None for one below ``$SHARPO_CACHE`` (else ``~/.cache/sharpo``).
        cached: queries whose answers are remembered.

    Example:
        >>> found = Bm25Retriever().search(["Which river flows through Varnholt?"], 3)
        >>> found[0][0].title
        '"Varnholt"'
    """

    def __init__(self, corpus: str | None = None, index: str | None = None, cached: int = 4096) -> None:
        if cached < 0:
            raise ConfigError(f"env.retriever.cached must be >= 0, got {cached}")
        self.corpus = Path(corpus).expanduser() if corpus is not None else sample() / "corpus.jsonl"
        self.cached = cached
        self._given = index
        self._opened: tuple[Bm25, mmap.mmap, np.ndarray] | None = None

    @property
    def folder(self) -> Path:
        """Where the index is, or will be."""
        if self._given is not None:
            return Path(self._given).expanduser()
        stat = self._stat()
        state = f"{self.corpus.resolve()} {stat.st_size} {stat.st_mtime_ns}"
        root = Path(os.environ.get("SHARPO_CACHE") or "~/.cache/sharpo").expanduser()
        return root / "search" / hashlib.sha256(state.encode()).hexdigest()[:24]

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the best passages of each query; see :class:`Retriever`."""
        index, text, offsets = self._open()
        found = []
        for query in queries:
            passages = []
            for number, score in index.numbers(query, k):
                row = json.loads(text[int(offsets[number]) : int(offsets[number + 1])])
                passages.append(Passage(str(row["id"]), row["contents"], score))
            found.append(passages)
        return found

    def build(self, workers: int | None = None, on_progress: Any = None) -> Bm25:
        """Make the index, or go on with an interrupted one; a lock keeps other processes waiting meanwhile.

        Args:
            workers: see :meth:`sharpo.envs.search.bm25.Bm25.build`.
            on_progress: see :meth:`sharpo.envs.search.bm25.Bm25.build`.

        Raises:
            DataError: the corpus is absent, empty or damaged.
        """
        from filelock import FileLock

        folder, size = self.folder, self._stat().st_size
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not self._is_there(folder, size):
                offsets: list[int] = []
                Bm25.build(self._documents(offsets), folder, workers=workers, on_progress=on_progress)
                np.save(folder / OFFSETS, np.array([*offsets, size], np.int64))
        return Bm25.load(folder)

    @staticmethod
    def _is_there(folder: Path, size: int) -> bool:
        return (folder / META).is_file() and (folder / OFFSETS).is_file() and int(np.load(folder / OFFSETS)[-1]) == size

    def _stat(self) -> os.stat_result:
        try:
            return self.corpus.stat()
        except FileNotFoundError:
            raise DataError(
                f"there is no corpus {self.corpus}: set env.retriever.corpus to a .jsonl file with id and contents, or "
                "leave it out for the built-in sample"
            ) from None

    def _documents(self, offsets: list[int]) -> Iterator[tuple[str, str]]:
        at = 0
        with self.corpus.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    at += len(line)
                    continue
                try:
                    row = json.loads(line)
                    pair = str(row["id"]), str(row["contents"])
                except (ValueError, KeyError, TypeError) as error:
                    raise DataError(
                        f"{self.corpus}, line {number}: no passage with id and contents ({error})"
                    ) from None
                offsets.append(at)
                at += len(line)
                yield pair

    def _open(self) -> tuple[Bm25, mmap.mmap, np.ndarray]:
        if self._opened is None:
            folder, size = self.folder, self._stat().st_size
            if not self._is_there(folder, size):
                if size > SMALL_BYTES:
                    raise DataError(
                        f"{self.corpus} ({size / 2**30:.1f} GiB) has no index in {folder}: run `python -m "
                        f"sharpo.envs.searchqa.index --corpus {self.corpus}` once (--index FOLDER: elsewhere)"
                    )
                self.build()
            index = Bm25.load(folder, cached=self.cached)
            offsets = np.asarray(np.load(folder / OFFSETS, mmap_mode="r"))
            if len(offsets) != index.documents + 1:
                raise DataError(f"the index in {folder} is not of {self.corpus}: choose another env.retriever.index")
            with self.corpus.open("rb") as file:
                self._opened = index, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), offsets
        return self._opened

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self.corpus), self._given, self.cached)
