"""A folder of numpy arrays that is mapped, not read: how a search index lies on the disk, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sharpo.envs.search import analyzer

from sharpo.errors import DataError

FORMAT = "sharpo-bm25"
LAYOUT = 1
META = "index.json"
PARTS = "parts"
ARRAYS = ("pointers", "documents", "impacts", "ranks", "terms", "term_ends", "ids", "id_ends")
_REMEDY = "build it with sharpo.envs.search.bm25.Bm25.build(documents, folder)"


def save_words(folder: Path, name: str, ends: str, words: Sequence[str]) -> None:
    """Write words as one run of UTF-8 bytes and where each ends."""
    coded = [word.encode() for word in words]
    np.save(folder / f"{name}.npy", np.frombuffer(b"".join(coded), np.uint8))
    np.save(folder / f"{ends}.npy", np.cumsum(np.fromiter(map(len, coded), np.int64, len(coded))))


def save_meta(folder: Path, fingerprint: str, sizes: dict[str, Any]) -> None:
    """Write the description of a finished index; it is the last file, so a folder with it is whole."""
    meta = {"format": FORMAT, "layout": LAYOUT, "analyzer": analyzer.VERSION, "fingerprint": fingerprint, **sizes}
    temporary = folder / f"{META}.part"
    temporary.write_text(json.dumps(meta, indent=1) + "\n")
    temporary.replace(folder / META)


def load_meta(folder: Path) -> dict[str, Any]:
    """Return the description of a finished index.

    Raises:
        DataError: there is no index, it is unfinished, or it is of another kind, layout or analyzer.
    """
    path = folder / META
    if not path.is_file():
        if (folder / PARTS).is_dir():
            raise DataError(f"the search index in {folder} is unfinished: run its build again, it goes on where it was")
        raise DataError(f"there is no search index in {folder}: {_REMEDY}")
    try:
        meta = json.loads(path.read_text())
    except ValueError as error:
        raise DataError(f"{path} is not the description of a search index ({error}): {_REMEDY}") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise DataError(f"{folder} holds another kind of index, not {FORMAT}: choose another folder, or {_REMEDY}")
    for key, now in (("layout", LAYOUT), ("analyzer", analyzer.VERSION)):
        if meta.get(key) != now:
            raise DataError(
                f"the search index in {folder} has {key} {meta.get(key)}, this version makes {now}: delete it, and "
                + _REMEDY
            )
    return meta


def load_arrays(folder: Path) -> dict[str, np.ndarray]:
    """Map every array of an index read-only: one copy in memory for all processes.

    Raises:
        DataError: an array is missing or damaged.
    """
    found = {}
    for name in ARRAYS:
        path = folder / f"{name}.npy"
        try:
            found[name] = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))  # plain views index faster
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"the search index in {folder} is damaged ({path.name}: {error}): {_REMEDY}") from None
    return found
