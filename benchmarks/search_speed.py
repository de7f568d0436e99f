"""Cost of the search engine: build, size, memory, latency, queries a second; beside bm25s and Lucene where they are.

python benchmarks/search_speed.py [--documents 1000 50000] [--queries 500] [--workers 2] [--folder FOLDER]
    [--like items_shuffle_1000.json] [--alone]

``--like`` takes lengths and frequencies of words from a WebShop catalogue instead of a Zipf law. Seconds of our build
are of the wall clock and of all its processes' CPUs; queries are one thread's CPU time.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import search_lucene
from search_texts import Texts
from sharpo.envs.search.analyzer import terms
from sharpo.envs.search.arrays import META
from sharpo.envs.search.bm25 import Bm25

K = 50
Rankings = list[list[str]]


def cpu() -> float:
    """Return the CPU seconds of this process and of its children that ended."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def peak() -> tuple[float, float]:
    """Return the most memory this process, and any child that ended, had so far, in MiB."""
    own, others = (resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own, others


def private() -> float:
    """Return this process's anonymous memory in MiB; mapped files are not in it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return 0.0


def timed(ask: Callable[[str], Any], queries: list[str]) -> tuple[str, list[Any]]:
    """Return the speed in words, and the answers."""
    spent, answers = [], []
    for query in queries:
        clock = time.thread_time()
        answers.append(ask(query))
        spent.append(1e3 * (time.thread_time() - clock))
    middle, most = np.percentile(spent, [50, 95])
    return f"{1e3 * len(spent) / sum(spent):,.0f} queries/s (median {middle:.2f} ms, 95 % {most:.2f} ms)", answers


def ours(texts: Texts, queries: list[str], folder: Path, workers: int) -> Rankings:
    """Measure this package's index and return its rankings."""

    def say(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done:,} documents", end="", file=sys.stderr)

    done = "check of a finished index" if (folder / META).exists() else "build"
    clock, spent = time.perf_counter(), cpu()
    Bm25.build(texts, folder, workers=workers, on_progress=say)
    built, spent = time.perf_counter() - clock, cpu() - spent
    size = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
    most, child = peak()
    print(
        f"{texts.count:,} documents, exact index: {done} {built:.1f} s ({texts.count / built:,.0f}/s, {workers} "
        f"process{'es' if workers > 1 else ''}), {spent:.1f} CPU s ({texts.count / spent:,.0f} per CPU s, making the "
        f"texts included), most memory {most:,.0f} MiB here and {child:,.0f} MiB in a worker, {size:,.1f} MiB on disk",
        flush=True,
    )
    before, clock = private(), time.perf_counter()
    index = Bm25.load(folder)
    opened = time.perf_counter() - clock
    first, answers = timed(lambda query: index.top(query, K), queries)
    index._remembered.cache_clear()
    fresh, _ = timed(lambda query: index.top(query, K), queries)
    again, _ = timed(lambda query: index.top(query, K), queries)
    print(
        f"{texts.count:,} documents, exact index: {index.terms:,} terms, open {1e3 * opened:.1f} ms, "
        f"{private() - before:.1f} MiB private after {len(queries)} queries\n  first pass  {first}\n"
        f"  second pass {fresh}\n  remembered  {again}",
        flush=True,
    )
    return [[name for name, _ in answer] for answer in answers]


def shared(rankings: Rankings, others: Rankings) -> str:
    """Return the overlap of the first 50, and how many lists are identical, in words."""
    pairs = list(zip(rankings, others, strict=True))
    overlap = sum(len({*one} & {*two}) / len(one) if one else float(not two) for one, two in pairs) / len(pairs)
    return f"overlap of the first {K} {overlap:.3f}, {sum(a == b for a, b in pairs)}/{len(pairs)} lists identical"


def bm25s_too(texts: Texts, queries: list[str], rankings: Rankings) -> None:
    """Measure bm25s on the same terms, and how many of the first 50 it shares."""
    if importlib.util.find_spec("bm25s") is None:
        print("bm25s is not installed: pip install bm25s, to compare")
        return
    import bm25s

    spent = time.process_time()
    names = [name for name, _ in texts]
    engine = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    engine.index([terms(text) for _, text in texts], show_progress=False)
    spent = time.process_time() - spent

    def ask(query: str) -> list[str]:
        found, scores = engine.retrieve([terms(query)], k=min(K, len(names)), show_progress=False, n_threads=0)
        return [names[place] for place, score in zip(found[0].tolist(), scores[0].tolist(), strict=True) if score > 0]

    speed, answers = timed(ask, queries)
    print(
        f"{texts.count:,} documents, bm25s {bm25s.__version__} on the same terms: build {spent:.1f} CPU s, {speed}, "
        + shared(rankings, answers),
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[1_000, 50_000], help="1181436 is the large store")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=None, help="keep the indexes here; a build goes on from here")
    parser.add_argument("--like", type=Path, default=None, help="items_shuffle*.json whose words are used")
    parser.add_argument("--alone", action="store_true", help="without bm25s (all in memory) and Lucene")
    options = parser.parse_args()
    root = options.folder or Path(tempfile.mkdtemp(prefix="search_speed_"))
    try:
        for count in options.documents:
            texts = Texts(count, options.like)
            queries = texts.queries(options.queries)
            rankings = ours(texts, queries, root / str(count), options.workers)
            if not options.alone:
                bm25s_too(texts, queries, rankings)
                found = search_lucene.measure(texts, queries, K, root / f"lucene_{count}")
                if found is not None:
                    print(f"{texts.count:,} documents, {found.told}, {shared(rankings, found.rankings)}", flush=True)
    finally:
        if options.folder is None:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
