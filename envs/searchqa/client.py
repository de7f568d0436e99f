"""A retriever that asks servers over HTTP, in either of the two dialects that are in use."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from sharpo.envs.searchqa.retriever import Passage, RetrievalError

from sharpo.errors import ConfigError

Dialect = Literal["search_r1", "verl_agent"]
LOCAL = "http://127.0.0.1:8000/retrieve"
RETRIED = (500, 502, 503, 504)


class HttpRetriever:
    """Asks one or several retrieval servers: ``POST`` with JSON, passages back.

    Dialect ``search_r1`` sends ``{"queries": [...], "topk", "return_scores"}``, ``verl_agent`` one ``{"query": ...}``
    after the other. Servers are taken in turn. After a try k that found no server, timed out, was cut off or was
    answered 500, 502, 503 or 504 it waits k times ``wait_s`` and asks the next server; another answer than 200 ends
    the search at once.

    Args:
        urls: address or addresses; the default is where the servers of the field, and ours, listen on this machine.
        dialect: ``search_r1`` or ``verl_agent``.
        tries: of one request, the first included.
        wait_s: seconds.
        timeout_s: seconds that connecting, and each wait for data, may take.

    Raises:
        ConfigError: a setting is out of range, or urllib3 is not installed (when it is first asked).
    """

    def __init__(
        self,
        urls: str | Sequence[str] = LOCAL,
        dialect: Dialect = "search_r1",
        tries: int = 10,
        wait_s: float = 1.0,
        timeout_s: float = 60.0,
    ) -> None:
        self.urls = (urls,) if isinstance(urls, str) else tuple(urls)
        if not self.urls or not all(url.startswith(("http://", "https://")) for url in self.urls):
            raise ConfigError(f"env.retriever.urls must be addresses like http://127.0.0.1:8000/retrieve, got {urls!r}")
        if dialect not in get_args(Dialect):
            raise ConfigError(f"env.retriever.dialect must be one of {', '.join(get_args(Dialect))}, got {dialect!r}")
        if tries < 1 or wait_s < 0 or timeout_s <= 0:
            raise ConfigError(
                "env.retriever: tries must be >= 1, wait_s >= 0 and timeout_s above 0, got "
                f"tries={tries}, wait_s={wait_s}, timeout_s={timeout_s}"
            )
        self.dialect: Dialect = dialect
        self.tries, self.wait_s, self.timeout_s = tries, wait_s, timeout_s
        self._turn = itertools.count(os.getpid())  # processes begin at different servers
        self._pool: Any = None
        self._owner = -1

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the best passages of each query; see :class:`sharpo.envs.searchqa.retriever.Retriever`."""
        rest: dict[str, Any] = {"topk": k, "return_scores": True}
        if not queries:
            return []
        if self.dialect == "search_r1":
            return self._ask({"queries": list(queries), **rest}, len(queries))
        return [self._ask({"query": query, **rest}, 1)[0] for query in queries]

    def _ask(self, body: Mapping[str, Any], count: int) -> list[list[Passage]]:
        pool, error_kind = self._connections()
        turn = next(self._turn)
        url = problem = ""
        for number in range(1, self.tries + 1):
            url = self.urls[(turn + number - 1) % len(self.urls)]
            try:
                answer = pool.request("POST", url, json=body)
            except error_kind as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if answer.status == 200:
                    return _passages(answer.data, count, url)
                problem = f"status {answer.status}: {answer.data[:200].decode(errors='replace')}"
                if answer.status not in RETRIED:
                    raise RetrievalError(f"{url} refused a search ({problem})")
            if number < self.tries:
                time.sleep(self.wait_s * number)
        raise RetrievalError(f"{url} did not answer a search in {self.tries} tries (the last: {problem})")

    def _connections(self) -> tuple[Any, type[Exception]]:
        """Return this process's own connections: a forked one must not share its parent's."""
        try:
            import urllib3
        except ImportError as error:
            raise ConfigError(f"HttpRetriever needs urllib3 ({error}): pip install 'sharpo[search]'") from error
        if self._owner != os.getpid():
            timeout = urllib3.Timeout(connect=self.timeout_s, read=self.timeout_s)
            self._pool = urllib3.PoolManager(maxsize=512, block=False, retries=False, timeout=timeout)
            self._owner = os.getpid()
        return self._pool, urllib3.exceptions.HTTPError

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.urls, self.dialect, self.tries, self.wait_s, self.timeout_s)


def _passages(data: bytes, count: int, url: str) -> list[list[Passage]]:
    """Read ``{"result": [[{"document": {...}, "score": s} or {...}, ...], ...]}``."""
    try:
        lists = json.loads(data)["result"]
        found = [[_passage(item) for item in items] for items in lists]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RetrievalError(f"{url} answered what is no list of passages ({type(error).__name__}: {error})") from None
    if len(found) != count:
        raise RetrievalError(f"{url} answered {len(found)} lists of passages for {count} queries")
    return found


def _passage(item: Mapping[str, Any]) -> Passage:
    document = item.get("document", item)
    contents = document["contents"] if "contents" in document else f'"{document["title"]}"\n{document["text"]}'
    return Passage(str(document.get("id", "")), str(contents), float(item.get("score", 0.0)))
