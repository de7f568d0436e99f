"""Dense retrieval: passages as vectors on the disk, searched whole by FAISS with the inner product."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from sharpo.envs.searchqa.corpus import Corpus, Passage, Passages
from sharpo.envs.searchqa.encoder import Encoder

from sharpo.errors import ConfigError, DataError

FORMAT, LAYOUT = "sharpo-dense", 1
META, PROGRESS, VECTORS = "dense.json", "progress.json", "vectors.npy"
CHUNK = 4096
"""Passages between two notes of how far a build is."""
SMALL_BYTES = 2**20
"""Corpora up to this size are encoded on the spot, larger ones by a command."""


class DenseRetriever:
    """Exact search over all passages: score(q, p) = e(q)·e(p), with e from :class:`Encoder`.

    The vectors are memory-mapped, so all processes of a machine share one copy; the encoder is not shared: where many
    processes search, let one serve (``python -m sharpo.envs.searchqa.server --encoder FOLDER``). An index remembers its
    encoder by a fingerprint and refuses another one.

    Args:
        encoder: folder of the model, for example a copy of ``intfloat/e5-base-v2``.
        corpus: the file; None for the built-in sample.
        index: folder of its index; None for one below ``$SHARPO_CACHE`` (else ``~/.cache/sharpo``).
        query: what stands before a query (E5's own by default).
        passage: what stands before a passage.
        most_tokens: longer texts are cut here.
        batch: texts encoded at once.
        device: of the encoder.
        cached: queries whose answers are remembered.

    Raises:
        ConfigError: a setting is out of range, or a library is missing (when it first searches).
        DataError: there is no encoder, corpus or index, or they are not of each other (when it first searches).
    """

    def __init__(
        self,
        encoder: str,
        corpus: str | None = None,
        index: str | None = None,
        query: str = "query: ",
        passage: str = "passage: ",
        most_tokens: int = 256,
        batch: int = 64,
        device: str = "cpu",
        cached: int = 4096,
    ) -> None:
        if cached < 0:
            raise ConfigError(f"env.retriever.cached must be >= 0, got {cached}")
        self.encoder = Encoder(encoder, query, passage, most_tokens, batch, device)
        self.corpus = Corpus(corpus)
        self.cached = cached
        self._given = index
        self._lock = threading.Lock()
        self._opened: tuple[np.ndarray, Passages] | None = None
        self._remembered = lru_cache(cached)(self._one)

    @property
    def folder(self) -> Path:
        """Where the index is, or will be."""
        if self._given is not None:
            return Path(self._given).expanduser()
        return self.corpus.cache("dense", self.encoder.fingerprint)

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the best passages of each query; see :class:`sharpo.envs.searchqa.retriever.Retriever`."""
        if k < 1:
            raise ConfigError(f"search: k must be >= 1, got {k}")
        if not queries:
            return []
        with self._lock:  # neither the model nor FAISS's threads are for several callers at once
            vectors, texts = self._open()
            if self.cached and len(queries) == 1:
                found = [self._remembered(queries[0], k)]
            else:
                found = _best(self.encoder.encode(queries, "query"), vectors, k)
        return [[texts.passage(number, score) for number, score in best] for best in found]

    def _one(self, query: str, k: int) -> tuple[tuple[int, float], ...]:
        return _best(self.encoder.encode([query], "query"), self._open()[0], k)[0]

    def build(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Encode the corpus, or go on where an interrupted build stopped, and return the number of passages.

        Args:
            on_progress: called with the number of passages encoded so far.

        Raises:
            DataError: the corpus is absent, empty or damaged, or the folder holds something else.
        """
        from filelock import FileLock

        _ = self.corpus.size
        folder = self.folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not (folder / META).is_file():
                self._encode_all(folder, on_progress)
            return int(self._meta(folder)["passages"])

    def _encode_all(self, folder: Path, on_progress: Callable[[int], None] | None) -> None:
        if folder.is_dir() and not (folder / PROGRESS).is_file() and any(folder.iterdir()):
            raise DataError(f"{folder} is no dense index and not empty: nothing of it is touched, choose a new folder")
        offsets: list[int] = []
        count = sum(1 for _ in self.corpus.documents(offsets))
        if not count:
            raise DataError(f"{self.corpus.path} holds no passage")
        with self.corpus.path.open("rb") as file:
            whole = hashlib.file_digest(file, "sha256").hexdigest()
        state = {"encoder": self.encoder.fingerprint, "corpus": whole, "passages": count, "width": self.encoder.width}
        folder.mkdir(parents=True, exist_ok=True)
        done = self._done(folder, state)
        mode: Any = "r+" if done else "w+"
        shape = None if done else (count, self.encoder.width)
        vectors = np.lib.format.open_memmap(folder / VECTORS, mode, np.float32, shape)
        rest = islice(self.corpus.documents([]), done, None)
        while texts := [contents for _, contents in islice(rest, CHUNK)]:
            vectors[done : done + len(texts)] = self.encoder.encode(texts, "passage")
            vectors.flush()
            done += len(texts)
            _write(folder / PROGRESS, {**state, "done": done})
            if on_progress is not None:
                on_progress(done)
        self.corpus.save_offsets(folder, offsets)
        _write(folder / META, {"format": FORMAT, "layout": LAYOUT, **state})
        (folder / PROGRESS).unlink()

    @staticmethod
    def _done(folder: Path, state: dict[str, Any]) -> int:
        """Return how many passages an interrupted build of the same corpus by the same encoder left."""
        if not ((folder / PROGRESS).is_file() and (folder / VECTORS).is_file()):
            return 0
        left = json.loads((folder / PROGRESS).read_text())
        return int(left["done"]) if all(left.get(key) == value for key, value in state.items()) else 0

    def _meta(self, folder: Path) -> dict[str, Any]:
        try:
            meta = json.loads((folder / META).read_text())
        except (OSError, ValueError) as error:
            raise DataError(
                f"the dense index in {folder} cannot be read ({error}): delete it and build it again"
            ) from None
        if meta.get("format") != FORMAT or meta.get("layout") != LAYOUT:
            raise DataError(f"{folder} holds another kind of index, not {FORMAT} {LAYOUT}: choose another folder")
        if meta["encoder"] != self.encoder.fingerprint:
            raise DataError(
                f"the dense index in {folder} was made by another encoder, or with other prefixes or lengths "
                f"(fingerprint {meta['encoder'][:12]}, not {self.encoder.fingerprint[:12]} of {self.encoder.path}): "
                "set env.retriever.encoder to that one, or choose another env.retriever.index"
            )
        return meta

    def _open(self) -> tuple[np.ndarray, Passages]:
        if self._opened is None:
            _faiss()
            folder, size = self.folder, self.corpus.size
            if not (folder / META).is_file():
                if size > SMALL_BYTES:
                    raise DataError(
                        f"{self.corpus.path} ({size / 2**20:.0f} MiB) has no dense index in {folder}: run `python -m "
                        f"sharpo.envs.searchqa.index --corpus {self.corpus.path} --encoder {self.encoder.path}` once, "
                        "with --index FOLDER where env.retriever.index is set; it goes on where it was interrupted"
                    )
                self.build()
            meta = self._meta(folder)
            if not self.corpus.fits(folder):
                raise DataError(f"the dense index in {folder} is not of {self.corpus.path}: choose another one")
            vectors = np.load(folder / VECTORS, mmap_mode="r")
            if vectors.shape != (meta["passages"], meta["width"]):
                raise DataError(f"the dense index in {folder} is damaged: delete it and build it again")
            self._opened = np.asarray(vectors), self.corpus.open(folder, meta["passages"])
        return self._opened

    def __reduce__(self) -> tuple[Any, ...]:
        corpus, more = str(self.corpus.path), self.encoder.__reduce__()[1]
        return type(self), (more[0], corpus, self._given, *more[1:], self.cached)


def _faiss() -> Any:
    try:
        return import_module("faiss")
    except ImportError as error:
        raise ConfigError(f"DenseRetriever needs faiss ({error}): pip install 'sharpo[dense]'") from error


def _best(queries: np.ndarray, vectors: np.ndarray, k: int) -> list[tuple[tuple[int, float], ...]]:
    """Return each query's best passages as (number, score), best first, equal scores in the corpus's order."""
    import torch

    faiss = _faiss()
    faiss.omp_set_num_threads(torch.get_num_threads())  # the two libraries' thread pools do not know each other
    scores, numbers = faiss.knn(queries, vectors, min(k, len(vectors)), metric=faiss.METRIC_INNER_PRODUCT)
    order = np.lexsort((numbers, -scores), axis=-1)
    return [
        tuple(zip(number[by].tolist(), score[by].tolist(), strict=True))
        for number, score, by in zip(numbers, scores, order, strict=True)
    ]


def _write(path: Path, value: dict[str, Any]) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(value, indent=1) + "\n")
    temporary.replace(path)
