"""Indexes a corpus once: ``python -m sharpo.envs.searchqa.index --corpus FILE [--index FOLDER] [--workers N]``.

With ``--encoder FOLDER`` the index is a dense one. A build that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
import time

from sharpo.envs.searchqa.retriever import Bm25Retriever
from sharpo.envs.searchqa.server import add_encoder, dense

from sharpo.errors import SharpoError, end


def main(arguments: list[str] | None = None) -> None:
    """Build the index and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m sharpo.envs.searchqa.index")
    parser.add_argument("--corpus", required=True, help='JSON lines {"id": ..., "contents": "title\\ntext"}')
    parser.add_argument("--index", default=None, help="folder; default below $SHARPO_CACHE or ~/.cache/sharpo")
    parser.add_argument("--workers", type=int, default=None, help="BM25: processes; default one per core, at most 8")
    add_encoder(parser)
    options = parser.parse_args(arguments)
    began = time.monotonic()

    def say(done: int) -> None:
        print(f"\r{done:,} passages, {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)  # noqa: T201

    try:
        if options.encoder is not None:
            encoded = dense(options)
            what, folder = f"{encoded.build(say):,} passages, {encoded.encoder.width} numbers each", encoded.folder
        else:
            retriever = Bm25Retriever(options.corpus, options.index)
            index = retriever.build(options.workers, say)
            what, folder = f"{index.documents:,} passages, {index.terms:,} terms", retriever.folder
    except SharpoError as error:
        end(error)
    print(f"\n{what} in {folder}")  # noqa: T201


if __name__ == "__main__":
    main()
