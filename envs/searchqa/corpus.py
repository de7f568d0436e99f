"""A corpus of passages as JSON lines, read where they stand, and where the indexes of a corpus are kept."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sharpo.envs.searchqa.questions import sample

from sharpo.errors import DataError

OFFSETS = "offsets.npy"


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage that was found: its first line is its title.

    Args:
        id: the passage's id; empty when the retriever does not say.
        contents: title, line break, text.
        score: the retriever's; larger is better.
    """

    id: str
    contents: str
    score: float

    @property
    def title(self) -> str:
        """The first line, as it stands."""
        return self.contents.partition("\n")[0]

    @property
    def text(self) -> str:
        """Everything after the first line."""
        return self.contents.partition("\n")[2]


class Corpus:
    """Passages with ``id`` and ``contents`` (title, line break, text), one JSON object a line.

    Args:
        path: the file; None for the built-in sample.
    """

    def __init__(self, path: str | None) -> None:
        self.path = Path(path).expanduser() if path is not None else sample() / "corpus.jsonl"

    @property
    def size(self) -> int:
        """Bytes of the file.

        Raises:
            DataError: there is no such file.
        """
        return self._stat().st_size

    def cache(self, *more: str) -> Path:
        """Return the folder of an index of the file as it is now, below ``$SHARPO_CACHE`` or ``~/.cache/sharpo``.

        Args:
            more: what else the index depends on.
        """
        stat = self._stat()
        state = " ".join([str(self.path.resolve()), str(stat.st_size), str(stat.st_mtime_ns), *more])
        root = Path(os.environ.get("SHARPO_CACHE") or "~/.cache/sharpo").expanduser()
        return root / "search" / hashlib.sha256(state.encode()).hexdigest()[:24]

    def documents(self, offsets: list[int]) -> Iterator[tuple[str, str]]:
        """Yield every passage's id and contents, and add to ``offsets`` where its line begins.

        Raises:
            DataError: a line is no passage.
        """
        at = 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    at += len(line)
                    continue
                try:
                    row = json.loads(line)
                    pair = str(row["id"]), str(row["contents"])
                except (ValueError, KeyError, TypeError) as error:
                    raise DataError(f"{self.path}, line {number}: no passage with id and contents ({error})") from None
                offsets.append(at)
                at += len(line)
                yield pair

    def save_offsets(self, folder: Path, offsets: list[int]) -> None:
        """Keep where the lines begin, and the file's size, beside an index."""
        np.save(folder / OFFSETS, np.array([*offsets, self.size], np.int64))

    def fits(self, folder: Path) -> bool:
        """Return True when the lines' places in a folder are those of a file of this one's size."""
        return (folder / OFFSETS).is_file() and int(np.load(folder / OFFSETS, mmap_mode="r")[-1]) == self.size

    def open(self, folder: Path, count: int) -> Passages:
        """Map the passages that an index numbers.

        Args:
            folder: of the index.
            count: passages that the index has.

        Raises:
            DataError: the index has another number of passages.
        """
        offsets = np.asarray(np.load(folder / OFFSETS, mmap_mode="r"))
        if len(offsets) != count + 1:
            raise DataError(f"the index in {folder} is not of {self.path}: choose another env.retriever.index")
        return Passages(self.path, offsets)

    def _stat(self) -> os.stat_result:
        try:
            return self.path.stat()
        except FileNotFoundError:
            raise DataError(
                f"there is no corpus {self.path}: set env.retriever.corpus to a .jsonl file with id and contents, or "
                "leave it out for the built-in sample"
            ) from None


class Passages:
    """Passages by number, each read when it is asked for.

    Args:
        path: the corpus.
        offsets: where each line begins, then the size.
    """

    def __init__(self, path: Path, offsets: np.ndarray) -> None:
        self._offsets = offsets
        with path.open("rb") as file:
            self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def passage(self, number: int, score: float) -> Passage:
        """Return a passage with the score that a retriever gave it."""
        row = json.loads(self._text[int(self._offsets[number]) : int(self._offsets[number + 1])])
        return Passage(str(row["id"]), str(row["contents"]), score)
