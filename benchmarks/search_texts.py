"""Documents to index: made-up words of a Zipf law, or as many as wanted with the words of a real catalogue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sharpo.envs.webshop import records
from sharpo.envs.webshop.products import product, usable

WORDS = 200_000
"""Words of the made-up language; the n-th is used about 1/n as often as the first."""
LENGTH = 120


class Texts:
    """Made-up documents by number, the same every time; can be read again and again.

    With a catalogue, a document has the length of one of the catalogue's, and its words are drawn as often as they
    stand there; a word is a new one as often as a word stands there once (Good and Turing), so the vocabulary grows.

    Args:
        count: documents.
        like: an ``items_shuffle*.json``; None for made-up words of a Zipf law.
    """

    def __init__(self, count: int, like: Path | None = None) -> None:
        self.count = count
        if like is None:
            weights = 1.0 / np.arange(1, WORDS + 1)
            self._words = [f"w{np.base_repr(number, 36).lower()}" for number in range(WORDS)]
            self._lengths, self._new = np.arange(LENGTH // 2, LENGTH * 3 // 2), 0.0
        else:
            texts = [product(row, {})[0].document().split() for row in usable(records.stream(like))]
            counted = Counter(word for text in texts for word in text)
            self._words = list(counted)
            weights = np.array([counted[word] for word in self._words], np.float64)
            self._lengths = np.array([len(text) for text in texts])
            self._new = float((weights == 1).sum() / weights.sum())
        self._places = np.cumsum(weights / weights.sum())
        self._places[-1] = 1.0

    def words(self, rng: np.random.Generator, count: int) -> str:
        """Return ``count`` words."""
        numbers = np.searchsorted(self._places, rng.random(count)).tolist()
        said = [self._words[number] for number in numbers]
        for place in np.flatnonzero(rng.random(count) < self._new).tolist():
            said[place] = f"n{np.base_repr(min(int(rng.pareto(0.8) * 2000), 10**9), 36).lower()}"
        return " ".join(said)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for number in range(self.count):
            rng = np.random.default_rng(number)
            yield f"B{number:09d}", self.words(rng, int(rng.choice(self._lengths)))

    def queries(self, count: int) -> list[str]:
        """Return queries of 3 to 9 words out of the documents' own mixture."""
        rng = np.random.default_rng(2**40)
        return [self.words(rng, int(rng.integers(3, 10))) for _ in range(count)]
