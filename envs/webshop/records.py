"""Many JSON values in one memory-mapped file: any of them is read alone, and all processes share the pages."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

_READ = 1 << 20


def save(path: Path, values: Iterable[Any]) -> int:
    """Write values as ``<path>.bin`` with their ends in ``<path>.npy`` and return how many there are.

    Args:
        path: without a suffix.
        values: JSON values.
    """
    ends, at = [], 0
    with path.with_suffix(".bin").open("wb") as file:
        for value in values:
            at += file.write(
                json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
            )
            ends.append(at)
    np.save(path.with_suffix(".npy"), np.array(ends, np.int64))
    return len(ends)


class Records:
    """Values written by :func:`save`, in order.

    Args:
        path: without a suffix.
    """

    def __init__(self, path: Path) -> None:
        self._ends = np.load(path.with_suffix(".npy"), mmap_mode="r")
        with path.with_suffix(".bin").open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if len(self._ends) else b""

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, row: int) -> Any:
        start = int(self._ends[row - 1]) if row else 0
        return json.loads(self._map[start : int(self._ends[row])].decode("utf-8", "surrogatepass"))


def stream(path: Path) -> Iterator[Any]:
    """Yield the values of a JSON file that holds one list, without reading it whole.

    Args:
        path: the file.

    Raises:
        ValueError: the file holds no list, or ends before the list does.
    """
    decoder = json.JSONDecoder()
    with path.open(encoding="utf-8") as file:
        text = file.read(_READ)
        at = len(text) - len(text.lstrip()) + 1
        if text[at - 1 : at] != "[":
            raise ValueError("it holds no list")
        while True:
            at = _skip(text, at)
            if text[at : at + 1] == "]":
                return
            try:
                value, stop = decoder.raw_decode(text, at)
            except ValueError:
                value, stop = None, len(text)
            if stop < len(text):  # a value that ends with the text may be cut off
                yield value
                at = stop
                continue
            more = file.read(max(_READ, len(text) - at))
            if not more:
                raise ValueError("it ends, or is damaged, inside its list")
            text, at = text[at:] + more, 0


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at
