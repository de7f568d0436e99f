"""Builds a BM25 index: chunks of documents are analysed by processes and kept as parts, then merged."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path

import numpy as np
from sharpo.envs.search import analyzer, arrays
from sharpo.envs.search.norms import decoded_lengths
from sharpo.envs.search.workers import Analysts

from sharpo.errors import ConfigError, DataError

CHUNK = 20_000
"""Documents of one part."""
Documents = Iterable[tuple[str, str]]
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Part:
    """What a chunk of documents became: a file, its documents' ids, and a hash of everything it depends on."""

    path: Path
    ids: list[str]
    key: str


def write_part(path: Path, texts: list[str]) -> None:
    """Analyse texts and keep their postings, by term (sorted) and document."""
    postings: dict[str, list[tuple[int, int]]] = {}
    lengths = np.zeros(len(texts), np.int32)
    for number, text in enumerate(texts):
        counted = Counter(analyzer.terms(text))
        lengths[number] = counted.total()
        for term, count in counted.items():
            postings.setdefault(term, []).append((number, count))
    words = sorted(postings)
    flat = list(chain.from_iterable(postings[word] for word in words))
    pairs = np.array(flat, np.int32).reshape(-1, 2)
    frequencies = np.fromiter((len(postings[word]) for word in words), np.int64, len(words))
    temporary = path.with_suffix(".part")
    with temporary.open("wb") as file:
        np.savez(
            file, words=np.frombuffer("\n".join(words).encode(), np.uint8), frequencies=frequencies,
            documents=pairs[:, 0], counts=pairs[:, 1], lengths=lengths,
        )  # fmt: skip
    temporary.replace(path)


def make_parts(documents: Documents, folder: Path, workers: int, on_progress: Progress | None) -> list[Part]:
    """Analyse all documents; a part that an earlier, interrupted build left is taken as it is."""
    parts: list[Part] = []
    waiting: deque[tuple[Future[None] | None, int]] = deque()
    done = 0

    def settle(most: int) -> None:
        nonlocal done
        while len(waiting) > most:
            future, count = waiting.popleft()
            if future is not None:
                future.result()
            done += count
            if on_progress is not None:
                on_progress(done)

    chunks = _chunks(documents)
    first = next(chunks, [])
    alone = len(first) < CHUNK or workers == 1
    with contextlib.nullcontext() if alone else Analysts(workers) as analysts:
        for chunk in chain([first] if first else [], chunks):
            key = _key(chunk)
            part = Part(folder / f"{len(parts):06d}-{key[:16]}.npz", [name for name, _ in chunk], key)
            parts.append(part)
            future, texts = None, [text for _, text in chunk]
            if not part.path.exists():
                if analysts is None:
                    write_part(part.path, texts)
                else:
                    future = analysts.submit(part.path, texts)
            waiting.append((future, len(chunk)))
            settle(0 if analysts is None else 2 * workers)
        settle(0)
    return parts


def _chunks(documents: Documents) -> Iterator[list[tuple[str, str]]]:
    walk = iter(documents)
    while chunk := list(islice(walk, CHUNK)):
        yield chunk


def _key(chunk: list[tuple[str, str]]) -> str:
    digest = hashlib.sha256(f"{arrays.LAYOUT} {analyzer.VERSION}".encode())
    for name, text in chunk:
        for piece in (name.encode(), text.encode("utf-8", "surrogatepass")):
            digest.update(len(piece).to_bytes(8, "little") + piece)
    return digest.hexdigest()


def _words(part: np.lib.npyio.NpzFile) -> list[str]:
    blob = part["words"].tobytes().decode()
    return blob.split("\n") if blob else []


def merge(parts: list[Part], folder: Path, k1: float, b: float) -> dict[str, int]:
    """Merge parts into the arrays of one index and return its sizes.

    Raises:
        DataError: no document holds a word, or two documents have the same id.
    """
    ids = [name for part in parts for name in part.ids]
    vocabulary: dict[str, int] = {}
    frequencies: list[int] = []
    all_lengths = []
    for part in parts:
        with np.load(part.path) as read:
            for word, count in zip(_words(read), read["frequencies"].tolist(), strict=True):
                number = vocabulary.setdefault(word, len(vocabulary))
                if number == len(frequencies):
                    frequencies.append(0)
                frequencies[number] += count
            all_lengths.append(read["lengths"])
    if not vocabulary:
        raise DataError(f"no search index can be made in {folder}: not one of {len(ids)} documents holds a word")
    words = sorted(vocabulary)
    order = {word: number for number, word in enumerate(words)}
    df = np.array([frequencies[vocabulary[word]] for word in words], np.int64)
    pointers = np.concatenate([np.zeros(1, np.int64), np.cumsum(df)])
    lengths = np.concatenate(all_lengths)
    filled = int((lengths > 0).sum())
    idf = np.log(1 + (filled - df + 0.5) / (df + 0.5)).astype(np.float32)
    average = np.float32(lengths.sum(dtype=np.int64) / filled)
    norm = np.float32(1) / (np.float32(k1) * (np.float32(1 - b) + np.float32(b) * decoded_lengths(lengths) / average))

    total = int(pointers[-1])
    documents = np.lib.format.open_memmap(folder / "documents.npy", "w+", np.int32, (total,))
    impacts = np.lib.format.open_memmap(folder / "impacts.npy", "w+", np.float32, (total,))
    free, base = pointers[:-1].copy(), 0
    for part in parts:
        with np.load(part.path) as read:
            found = np.fromiter(map(order.__getitem__, _words(read)), np.int64)
            own = read["frequencies"]
            starts = np.repeat(free[found] - (np.cumsum(own) - own), own)
            places = starts + np.arange(len(starts))
            free[found] += own
            numbers = read["documents"] + np.int32(base)
            weight = np.repeat(idf[found], own)
            frequency = read["counts"].astype(np.float32)
            documents[places] = numbers
            impacts[places] = weight - weight / (np.float32(1) + frequency * norm[numbers])
        base += len(part.ids)
    documents.flush()
    impacts.flush()
    np.save(folder / "pointers.npy", pointers)
    np.save(folder / "ranks.npy", _ranks(ids))
    arrays.save_words(folder, "terms", "term_ends", words)
    arrays.save_words(folder, "ids", "id_ends", ids)
    return {"documents": len(ids), "terms": len(words), "postings": total}


def _ranks(ids: list[str]) -> np.ndarray:
    """Return each document's place in the order of the ids, by which Lucene's callers break ties."""
    by_name = sorted(range(len(ids)), key=ids.__getitem__)
    for one, two in pairwise(by_name):
        if ids[one] == ids[two]:
            raise DataError(f"two documents have the id {ids[one]!r}: ids must be unique in a search index")
    ranks = np.empty(len(ids), np.int32)
    ranks[by_name] = np.arange(len(ids), dtype=np.int32)
    return ranks


def build(
    documents: Documents, folder: Path, k1: float, b: float, workers: int | None, on_progress: Progress | None
) -> None:
    """See :meth:`sharpo.envs.search.bm25.Bm25.build`."""
    if k1 <= 0 or not 0 <= b <= 1:
        raise ConfigError(f"search: k1 must be above 0 and b in [0, 1], got k1={k1}, b={b}")
    many = workers if workers is not None else min(8, os.cpu_count() or 1)
    if many < 1:
        raise ConfigError(f"search: workers must be >= 1, got {many}")
    ours = (folder / arrays.META).exists() or (folder / arrays.PARTS).exists()
    if folder.is_dir() and not ours and any(folder.iterdir()):
        raise DataError(f"{folder} is no search index and not empty: nothing of it is touched, choose a new folder")
    if _is_there(folder, documents, k1, b):
        return
    kept = folder / arrays.PARTS
    kept.mkdir(parents=True, exist_ok=True)
    parts = make_parts(documents, kept, many, on_progress)
    if not parts:
        shutil.rmtree(kept)
        raise DataError(f"no search index can be made in {folder}: there are no documents")
    (folder / arrays.META).unlink(missing_ok=True)
    sizes = merge(parts, folder, k1, b)
    arrays.save_meta(folder, _fingerprint([part.key for part in parts], k1, b), sizes)
    shutil.rmtree(kept)


def _fingerprint(keys: list[str], k1: float, b: float) -> str:
    return hashlib.sha256(f"{k1!r} {b!r} {sys.byteorder} {' '.join(keys)}".encode()).hexdigest()


def _is_there(folder: Path, documents: Documents, k1: float, b: float) -> bool:
    """Return True when the folder's index is of these documents; an iterator can be read only once: then False."""
    if iter(documents) is documents or not (folder / arrays.META).is_file():
        return False
    try:
        found = arrays.load_meta(folder)["fingerprint"]
        arrays.load_arrays(folder)
    except DataError:  # of another layout, or damaged: made again
        return False
    return found == _fingerprint([_key(chunk) for chunk in _chunks(documents)], k1, b)
