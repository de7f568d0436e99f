"""A retrieval server in both dialects: ``python -m sharpo.envs.searchqa.server --corpus FILE [--port 8000]``.

With ``--encoder FOLDER`` passages are found by vectors instead of words.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sharpo.envs.searchqa.dense import DenseRetriever
from sharpo.envs.searchqa.retriever import Bm25Retriever, Passage, Retriever

from sharpo.errors import ConfigError, SharpoError, end

if TYPE_CHECKING:
    from starlette.applications import Starlette

MOST = 1000
"""More passages than this are not given for one query."""


def read(body: Any, default: int) -> tuple[list[str], int, bool]:
    """Return queries, passages per query and whether scores are wanted, from either dialect.

    Raises:
        ValueError: the request is of neither.

    Example:
        >>> read({"queries": ["a", "b"], "topk": None}, 3)
        (['a', 'b'], 3, False)
        >>> read({"query": "a", "topk": 5, "return_scores": True}, 3)
        (['a'], 5, True)
    """
    if not isinstance(body, dict) or ("queries" in body) == ("query" in body):
        raise ValueError("the body must be an object with either 'queries' (a list) or 'query' (a text)")
    queries = body["queries"] if "queries" in body else [body["query"]]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise ValueError("'queries' must be a list of texts, 'query' a text")
    topk = body.get("topk") or default
    if not isinstance(topk, int) or isinstance(topk, bool) or not 1 <= topk <= MOST:
        raise ValueError(f"'topk' must be a whole number from 1 to {MOST}, or null for {default}")
    return queries, topk, bool(body.get("return_scores", False))


def document(passage: Passage) -> Mapping[str, str]:
    """Return a passage as both dialects' clients read it."""
    title = passage.title.strip('"')
    return {"id": passage.id, "title": title, "text": passage.text, "contents": passage.contents}


def make_app(retriever: Retriever, topk: int = 3) -> Starlette:
    """Return the application: ``POST /retrieve``, ``GET /health``.

    Args:
        retriever: what it serves; searched in threads.
        topk: passages when a request does not say.
    """
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import Request
        from starlette.responses import JSONResponse
        from starlette.routing import Route
    except ImportError as error:
        raise ConfigError(f"the server needs starlette ({error}): pip install 'sharpo[search]'") from error

    async def retrieve(request: Request) -> JSONResponse:
        try:
            queries, count, scored = read(await request.json(), topk)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=422)
        try:
            lists = await run_in_threadpool(retriever.search, queries, count)
        except SharpoError as error:
            return JSONResponse({"error": str(error)}, status_code=500)
        if scored:
            found = [[{"document": document(p), "score": p.score} for p in passages] for passages in lists]
        else:
            found = [[document(p) for p in passages] for passages in lists]
        return JSONResponse({"result": found})

    async def health(request: Request) -> JSONResponse:
        del request
        return JSONResponse({"status": "ok", "topk": topk})

    return Starlette(routes=[Route("/retrieve", retrieve, methods=["POST"]), Route("/health", health)])


def add_encoder(parser: argparse.ArgumentParser) -> None:
    """Add the options of dense retrieval to a command."""
    parser.add_argument("--encoder", default=None, help="folder of an encoder, e.g. a copy of intfloat/e5-base-v2")
    parser.add_argument("--query", default="query: ", help="what stands before a query (with --encoder)")
    parser.add_argument("--passage", default="passage: ", help="what stands before a passage (with --encoder)")
    parser.add_argument("--device", default="cpu", help="of the encoder")


def dense(options: argparse.Namespace) -> DenseRetriever:
    """Return the dense retriever that a command's options describe."""
    return DenseRetriever(
        options.encoder, options.corpus, options.index, options.query, options.passage, device=options.device
    )


def main(arguments: list[str] | None = None) -> None:
    """Serve a corpus until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m sharpo.envs.searchqa.server")
    parser.add_argument("--corpus", default=None, help="JSON lines with id and contents; default the built-in sample")
    parser.add_argument("--index", default=None, help="folder of its index")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--topk", type=int, default=3, help="passages when a request does not say")
    add_encoder(parser)
    options = parser.parse_args(arguments)
    try:
        retriever = dense(options) if options.encoder else Bm25Retriever(options.corpus, options.index)
        retriever.search(["ready"], 1)
        app = make_app(retriever, options.topk)
        import uvicorn
    except (SharpoError, ImportError) as error:
        end(error)
    uvicorn.run(app, host=options.host, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
