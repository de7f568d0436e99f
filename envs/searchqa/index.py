"""Indexes a corpus once: ``python -m sharpo.envs.searchqa.index --corpus FILE [--index FOLDER] [--workers N]``."""

from __future__ import annotations

import argparse
import sys
import time

from sharpo.envs.searchqa.retriever import Bm25Retriever

from sharpo.errors import SharpoError, end


def main(arguments: list[str] | None = None) -> None:
    """Build the index and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m sharpo.envs.searchqa.index")
    parser.add_argument("--corpus", required=True, help='JSON lines {"id": ..., "contents": "title\\ntext"}')
    parser.add_argument("--index", default=None, help="folder; default below $SHARPO_CACHE or ~/.cache/sharpo")
    parser.add_argument("--workers", type=int, default=None, help="processes; default one per core, at most 8")
    options = parser.parse_args(arguments)
    retriever = Bm25Retriever(options.corpus, options.index)
    began = time.monotonic()

    def say(done: int) -> None:
        print(f"\r{done:,} passages, {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)  # noqa: T201

    try:
        index = retriever.build(options.workers, say)
    except SharpoError as error:
        end(error)
    print(f"\n{index.documents:,} passages, {index.terms:,} terms in {retriever.folder}")  # noqa: T201


if __name__ == "__main__":
    main()
