"""Tags the titles of a catalogue in parts, with processes; a part that an interrupted build left is taken as it is."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharpo.envs.search.workers import Analysts
from sharpo.envs.webshop import nouns
from sharpo.envs.webshop.products import Product

_WORK = "sharpo.envs.webshop.nouns:write_part"


@dataclass(frozen=True, slots=True)
class Tagging:
    """Finds the nouns of titles batch by batch, ahead, in processes; what is found is kept in parts by content.

    Args:
        folder: of the parts.
        model: a spaCy model, or ``words``.
        workers: processes.
        name: a list that gets the name of what found the nouns.
    """

    folder: Path
    model: str
    workers: int
    name: list[str]

    def nouns(self, batches: Iterator[list[Product]]) -> Iterator[tuple[list[Product], list[tuple[str, ...]]]]:
        """Yield every batch with its titles' nouns; those of the next batches are looked for meanwhile."""
        waiting: deque[tuple[list[Product], Path, Future[None] | None]] = deque()
        with contextlib.ExitStack() as stack:
            pool: Any = None
            for number, batch in enumerate(batches):
                titles = [one.title for one in batch]
                key = hashlib.sha256(json.dumps([titles, self.model]).encode()).hexdigest()
                path = self.folder / f"{number:06d}-{key[:16]}.json"
                future = None
                if not path.exists():
                    if number == 0 or self.workers == 1:  # the first one says whether there is a tagger
                        nouns.write_part(path, (titles, self.model))
                    else:
                        pool = pool or stack.enter_context(Analysts(self.workers, _WORK))
                        future = pool.submit(path, (titles, self.model))
                waiting.append((batch, path, future))
                while len(waiting) > 2 * self.workers:
                    yield self._taken(*waiting.popleft())
            while waiting:
                yield self._taken(*waiting.popleft())

    def _taken(
        self, batch: list[Product], path: Path, future: Future[None] | None
    ) -> tuple[list[Product], list[tuple[str, ...]]]:
        if future is not None:
            future.result()
        words, name = nouns.read_part(path)
        self.name[:] = [name]
        return batch, words
