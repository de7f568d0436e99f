"""BM25 as Lucene computes it, number for number, over memory-mapped arrays."""

from __future__ import annotations

import threading
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sharpo.envs.search import analyzer, arrays
from sharpo.envs.search.build import Documents, Progress, build

from sharpo.errors import ConfigError, DataError


class Bm25:
    """A search index: score(d, q) = Σ_t n_t · idf_t · tf/(tf + k1·(1 − b + b·|d|/avg)), in Lucene's arithmetic.

    Single-precision terms, one-byte document lengths, a double-precision sum rounded to single precision, ties in the
    order of the documents' ids. Made by :meth:`build`, opened by :meth:`load`; all processes share one mapped copy.

    Source: Robertson and Zaragoza (2009); Lucene's ``BM25Similarity``; k1 = 0.9 and b = 0.4 as in Anserini.

    Args:
        folder: the index.
        cached: queries whose answers are remembered.

    Raises:
        DataError: there is no index in the folder, or it is unfinished, damaged or of another kind.

    Example:
        >>> import tempfile
        >>> texts = [("a", "The red fox"), ("b", "A fox and a dog"), ("c", "Rain")]
        >>> index = Bm25.build(texts, tempfile.mkdtemp())
        >>> [name for name, score in index.top("foxes", 10)]
        ['a', 'b']
    """

    def __init__(self, folder: str | Path, cached: int = 4096) -> None:
        if cached < 0:
            raise ConfigError(f"search: cached must be >= 0, got {cached}")
        self.folder = Path(folder)
        meta = arrays.load_meta(self.folder)
        self.fingerprint: str = meta["fingerprint"]
        """Hash of the documents and of all that the index depends on."""
        self._cached = cached
        self._maps = arrays.load_arrays(self.folder)
        self.terms, self.documents = len(self._maps["term_ends"]), len(self._maps["id_ends"])
        postings = len(self._maps["documents"])
        if (self.documents, self.terms, postings) != (
            meta["documents"],
            meta["terms"],
            meta["postings"],
        ) or not postings:
            raise DataError(f"the search index in {self.folder} is damaged or empty: delete it and build it again")
        self._scores: np.ndarray | None = None
        self._lock = threading.Lock()
        self._remembered = lru_cache(cached)(self._top)

    @classmethod
    def build(
        cls,
        documents: Documents,
        folder: str | Path,
        *,
        k1: float = 0.9,
        b: float = 0.4,
        workers: int | None = None,
        on_progress: Progress | None = None,
    ) -> Bm25:
        """Make an index and open it. An interrupted build goes on where it stopped; a finished one is only checked.

        Args:
            documents: (id, text); ids are unique.
            folder: new, empty, or an index (which is replaced when the documents differ).
            k1: saturation of the term frequency.
            b: weight of the document's length, 0 to 1.
            workers: processes; None = one per core, at most 8. Fewer than 20,000 documents are analysed in this one.
            on_progress: called with the number of documents analysed so far.

        Raises:
            DataError: there are no documents or words, an id repeats, or the folder holds something else.
        """
        build(documents, Path(folder), k1, b, workers, on_progress)
        return cls(folder)

    @classmethod
    def load(cls, folder: str | Path, *, cached: int = 4096, fingerprint: str | None = None) -> Bm25:
        """Open an index.

        Args:
            folder: the index.
            cached: queries whose answers are remembered.
            fingerprint: refuse an index of other documents than this one's.
        """
        index = cls(folder, cached)
        if fingerprint is not None and index.fingerprint != fingerprint:
            raise DataError(
                f"the search index in {folder} was made from other documents (fingerprint {index.fingerprint[:12]}, "
                f"expected {fingerprint[:12]}): build it again"
            )
        return index

    def top(self, query: str, k: int) -> list[tuple[str, float]]:
        """Return the ``k`` best documents as (id, score), best first; none when no word of the query is known."""
        return [(self._id(number), score) for number, score in self.numbers(query, k)]

    def numbers(self, query: str, k: int) -> tuple[tuple[int, float], ...]:
        """Return the ``k`` best documents as (place in the order in which they were given, score), best first."""
        if k < 1:
            raise ConfigError(f"search: k must be >= 1, got {k}")
        return self._remembered(query, k)

    def _top(self, query: str, k: int) -> tuple[tuple[int, float], ...]:
        found = [(self._term(term), count) for term, count in Counter(analyzer.terms(query)).items()]
        pointers, lists = self._maps["pointers"], []
        for number, count in found:
            if number >= 0:
                span = slice(int(pointers[number]), int(pointers[number + 1]))
                impacts = self._maps["impacts"][span]
                lists.append((self._maps["documents"][span], impacts if count == 1 else impacts * np.float32(count)))
        if not lists:
            return ()
        documents, scores = self._sums(lists)
        if len(scores) > k:
            least = np.partition(scores, len(scores) - k)[len(scores) - k]
            good = np.flatnonzero(scores >= least)
            documents, scores = documents[good], scores[good]
        best = np.lexsort((self._maps["ranks"][documents], -scores))[:k]
        return tuple((int(documents[place]), float(scores[place])) for place in best)

    def _sums(self, lists: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        """Return every document that any list names, once, and its score."""
        with self._lock:
            if self._scores is None:
                self._scores = np.zeros(self.documents, np.float64)
            total = self._scores
            for documents, impacts in lists:
                total[documents] += impacts
            if 2 * sum(len(documents) for documents, _ in lists) > self.documents:
                everything = total.astype(np.float32)
                total.fill(0.0)
                named = np.flatnonzero(everything)
                return named, everything[named]
            parts, sums = [], []
            for documents, _ in lists:
                values = total[documents]
                total[documents] = 0.0
                new = values > 0.0  # taken by an earlier list: 0 by now
                parts.append(documents[new])
                sums.append(values[new])
        return np.concatenate(parts), np.concatenate(sums).astype(np.float32)

    def _term(self, term: str) -> int:
        """Return a term's number, -1 for an unknown one, by halving over the mapped words."""
        wanted, low, high = term.encode(), 0, self.terms
        while low < high:
            middle = (low + high) // 2
            if self._word("terms", "term_ends", middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < self.terms and self._word("terms", "term_ends", low) == wanted else -1

    def _id(self, number: int) -> str:
        return self._word("ids", "id_ends", number).decode()

    def _word(self, blob: str, ends: str, number: int) -> bytes:
        stops = self._maps[ends]
        start = int(stops[number - 1]) if number else 0
        return self._maps[blob][start : int(stops[number])].tobytes()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self.folder), self._cached)
