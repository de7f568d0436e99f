"""Retrievers: what answers a search. BM25 in process here, ``dense`` by an encoder, over HTTP in ``client``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from sharpo.envs.search.arrays import META
from sharpo.envs.search.bm25 import Bm25
from sharpo.envs.searchqa.corpus import Corpus, Passage, Passages

from sharpo.errors import ConfigError, DataError, SharpoError

SMALL_BYTES = 256 * 2**20
"""Corpora up to this size are indexed on the spot, larger ones by a command."""


class RetrievalError(SharpoError):
    """A search could not be answered."""


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
        self.corpus = Corpus(corpus)
        self.cached = cached
        self._given = index
        self._opened: tuple[Bm25, Passages] | None = None

    @property
    def folder(self) -> Path:
        """Where the index is, or will be."""
        return self.corpus.cache() if self._given is None else Path(self._given).expanduser()

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the best passages of each query; see :class:`Retriever`."""
        index, texts = self._open()
        return [[texts.passage(number, score) for number, score in index.numbers(query, k)] for query in queries]

    def build(self, workers: int | None = None, on_progress: Any = None) -> Bm25:
        """Make the index, or go on with an interrupted one; a lock keeps other processes waiting meanwhile.

        Args:
            workers: see :meth:`sharpo.envs.search.bm25.Bm25.build`.
            on_progress: see :meth:`sharpo.envs.search.bm25.Bm25.build`.

        Raises:
            DataError: the corpus is absent, empty or damaged.
        """
        from filelock import FileLock

        _ = self.corpus.size
        folder = self.folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not self._is_there(folder):
                offsets: list[int] = []
                Bm25.build(self.corpus.documents(offsets), folder, workers=workers, on_progress=on_progress)
                self.corpus.save_offsets(folder, offsets)
        return Bm25.load(folder)

    def _is_there(self, folder: Path) -> bool:
        return (folder / META).is_file() and self.corpus.fits(folder)

    def _open(self) -> tuple[Bm25, Passages]:
        if self._opened is None:
            folder, size = self.folder, self.corpus.size
            if not self._is_there(folder):
                if size > SMALL_BYTES:
                    raise DataError(
                        f"{self.corpus.path} ({size / 2**30:.1f} GiB) has no index in {folder}: run `python -m "
                        f"sharpo.envs.searchqa.index --corpus {self.corpus.path}` once (--index FOLDER: elsewhere)"
                    )
                self.build()
            index = Bm25.load(folder, cached=self.cached)
            self._opened = index, self.corpus.open(folder, index.documents)
        return self._opened

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self.corpus.path), self._given, self.cached)
