"""Cost of the search engine: build, size, memory, queries a second, beside bm25s where it is installed.

python benchmarks/search_speed.py [--documents 1000 50000] [--queries 500] [--workers 2] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sharpo.envs.search.analyzer import terms
from sharpo.envs.search.bm25 import Bm25

WORDS = 200_000
"""Words of the made-up language; the n-th is used about 1/n as often as the first."""
LENGTH = 120
K = 50


class Texts:
    """Made-up documents by number, the same every time; can be read again and again."""

    def __init__(self, count: int) -> None:
        self.count = count
        weights = 1.0 / np.arange(1, WORDS + 1)
        self._places = np.cumsum(weights / weights.sum())

    def words(self, rng: np.random.Generator, count: int, rarest: float = 1.0) -> str:
        """Return ``count`` words; a smaller ``rarest`` leaves the rare ones out."""
        numbers = np.searchsorted(self._places, rng.random(count) * rarest).tolist()
        return " ".join(f"w{np.base_repr(number, 36).lower()}" for number in numbers)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for number in range(self.count):
            rng = np.random.default_rng(number)
            yield f"B{number:09d}", self.words(rng, int(rng.integers(LENGTH // 2, LENGTH * 3 // 2)))

    def queries(self, count: int) -> list[str]:
        """Return queries of 3 to 9 words out of the documents' own mixture."""
        rng = np.random.default_rng(2**40)
        return [self.words(rng, int(rng.integers(3, 10))) for _ in range(count)]


def megabytes() -> float:
    """Return the memory of this process that no other shares, now."""
    pages = Path("/proc/self/smaps_rollup")
    if not pages.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    private = [line for line in pages.read_text().splitlines() if line.startswith(("Private_Clean", "Private_Dirty"))]
    return sum(int(line.split()[1]) for line in private) / 1024


def timed(ask: Callable[[str], Any], queries: list[str]) -> tuple[float, list[Any]]:
    """Return queries a second and the answers."""
    clock = time.perf_counter()
    answers = [ask(query) for query in queries]
    return len(queries) / (time.perf_counter() - clock), answers


def ours(texts: Texts, queries: list[str], folder: Path, workers: int) -> list[set[str]]:
    """Measure this package's index and return its rankings."""

    def say(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done:,} documents", end="", file=sys.stderr)

    clock = time.perf_counter()
    Bm25.build(texts, folder, workers=workers, on_progress=say)
    built = time.perf_counter() - clock
    size = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
    before, clock = megabytes(), time.perf_counter()
    index = Bm25.load(folder)
    opened = time.perf_counter() - clock
    timed(lambda query: index.top(query, 1), ["first touch"])
    cold, answers = timed(lambda query: index.top(query, K), queries)
    index._remembered.cache_clear()
    fresh, _ = timed(lambda query: index.top(query, K), queries)
    again, _ = timed(lambda query: index.top(query, K), queries)
    processes = f"{workers} process{'es' if workers > 1 else ''}"
    print(
        f"{texts.count:,} documents, exact index: build {built:.1f} s ({texts.count / built:,.0f}/s, {processes}), "
        f"{size:.1f} MiB on disk, open {1e3 * opened:.1f} ms, {megabytes() - before:.1f} MiB private after "
        f"{len(queries)} queries, {fresh:,.0f} queries/s (first pass {cold:,.0f}, remembered {again:,.0f})"
    )
    return [{name for name, _ in answer} for answer in answers]


def theirs(texts: Texts, queries: list[str], rankings: list[set[str]]) -> None:
    """Measure bm25s on the same terms, and how many of the first 50 it shares."""
    if importlib.util.find_spec("bm25s") is None:
        print("bm25s is not installed: pip install bm25s, to compare")
        return
    import bm25s

    clock = time.perf_counter()
    names = [name for name, _ in texts]
    engine = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    engine.index([terms(text) for _, text in texts], show_progress=False)
    built = time.perf_counter() - clock

    def ask(query: str) -> set[str]:
        found, scores = engine.retrieve([terms(query)], k=min(K, len(names)), show_progress=False, n_threads=0)
        return {names[place] for place, score in zip(found[0].tolist(), scores[0].tolist(), strict=True) if score > 0}

    speed, answers = timed(ask, queries)
    shared = sum(len(one & two) / max(1, len(one)) for one, two in zip(rankings, answers, strict=True)) / len(queries)
    print(
        f"{texts.count:,} documents, bm25s {bm25s.__version__} on the same terms: build {built:.1f} s (1 process), "
        f"{speed:,.0f} queries/s, overlap of the first {K} {shared:.3f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[1_000, 50_000], help="1181436 is the large store")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=None, help="keep the indexes here; a build goes on from here")
    parser.add_argument("--alone", action="store_true", help="without bm25s, which holds everything in memory")
    options = parser.parse_args()
    root = options.folder or Path(tempfile.mkdtemp(prefix="search_speed_"))
    try:
        for count in options.documents:
            texts = Texts(count)
            queries = texts.queries(options.queries)
            rankings = ours(texts, queries, root / str(count), options.workers)
            if not options.alone:
                theirs(texts, queries, rankings)
    finally:
        if options.folder is None:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
