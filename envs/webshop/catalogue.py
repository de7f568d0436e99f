"""A built catalogue on disk: products, goals and the search index, memory-mapped and shared by all processes."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from sharpo.envs.webshop import goals
from sharpo.envs.webshop.goals import Entry, Goal, Kind
from sharpo.envs.webshop.products import Product
from sharpo.envs.webshop.records import Records
from sharpo.envs.webshop.reward import OptionRule
from sharpo.envs.webshop.store import Search

from sharpo.errors import DataError

FORMAT = 2
VARIABLE = "WEBSHOP_DATA"
META, PRODUCTS, INDEX = "meta.json", "products", "search"
GOAL = np.dtype(
    [("row", "<i4"), ("number", "<i4"), ("upper", "<f8"), ("weight", "<f8"), ("legacy", "?"), ("fixed", "?")]
)
"""One goal: its product's row, its number among the product's goals, bound, weight, and whether it can be met."""
ASIN = "S10"
KINDS: tuple[Kind, ...] = ("synthetic", "human")
_DESCRIBED = {"format", "products", "goals", "nouns", "price_seed", "index", "fingerprint"}
_KEPT = 4096
_GET = "run `python -m sharpo.data webshop demo` (made-up products), or `... webshop build --source FOLDER`"


def find(folder: str | None) -> Path:
    """Return where the catalogue is: ``folder``, else ``$WEBSHOP_DATA``, else ``~/.cache/sharpo/webshop``."""
    cache = Path(os.environ.get("SHARPO_CACHE") or "~/.cache/sharpo") / "webshop"
    return Path(folder or os.environ.get(VARIABLE) or cache).expanduser()


def to_record(product: Product, said: Entry) -> dict[str, Any]:
    """Return a product and what is said about it as a JSON value."""
    return {**asdict(product), "said": said}


def from_record(raw: Mapping[str, Any]) -> tuple[Product, Entry]:
    """Return a product and what is said about it from :func:`to_record`."""
    instruction, wanted, said = raw["said"]
    known = {field.name: raw[field.name] for field in fields(Product)}
    for name in ("bullets", "attributes", "nouns"):
        known[name] = tuple(known[name])
    known["options"] = tuple((name, tuple(values)) for name, values in known["options"])
    entry = Entry(
        instruction, tuple(wanted), tuple((text, tuple(names), tuple(options)) for text, names, options in said)
    )
    return Product(**known), entry


class Shelf(Mapping[str, Product]):
    """Products by asin, each read when it is asked for; the last few thousand are remembered.

    Args:
        folder: the catalogue.
    """

    def __init__(self, folder: Path) -> None:
        self._records = Records(folder / PRODUCTS)
        self._names = np.load(folder / "asins.npy", mmap_mode="r")
        self._rows = np.load(folder / "rows.npy", mmap_mode="r")
        self.at = functools.lru_cache(_KEPT)(lambda row: from_record(self._records[row]))
        """Return the product of a row, and what is said about it."""
        self.row = functools.lru_cache(_KEPT)(self._row)
        """Return a product's row, -1 for an unknown one."""

    def _row(self, asin: str) -> int:
        try:
            name = np.array(asin.encode("ascii"), self._names.dtype)
        except UnicodeEncodeError:
            return -1
        place = int(np.searchsorted(self._names, name))
        known = place < len(self._names) and bytes(self._names[place]) == asin.encode()
        return int(self._rows[place]) if known else -1

    def __getitem__(self, asin: str) -> Product:
        row = self.row(asin)
        if row < 0:
            raise KeyError(asin)
        return self.at(row)[0]

    def __contains__(self, asin: object) -> bool:
        return isinstance(asin, str) and self.row(asin) >= 0

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[str]:
        return (self.at(row)[0].asin for row in range(len(self)))


def described(folder: Path) -> Mapping[str, Any] | None:
    """Return what a catalogue of any format says of itself; None when the folder holds none."""
    try:
        meta: Any = json.loads((folder / META).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return meta if isinstance(meta, dict) and set(meta) >= _DESCRIBED else None


def _meta(folder: Path) -> Mapping[str, Any]:
    meta = described(folder)
    if meta is not None and meta["format"] == FORMAT:
        return meta
    if meta is not None:
        raise DataError(f"the WebShop catalogue in {folder} has format {meta['format']}, not {FORMAT}: {_GET}")
    if (folder / META).exists():
        raise DataError(
            f"{folder / META} is damaged or not a WebShop catalogue's: {_GET} with another --target, and set "
            f"env.catalogue (or {VARIABLE}) to it"
        )
    raise DataError(f"no WebShop catalogue in {folder}: {_GET}; or set env.catalogue (or {VARIABLE}) to a built one")


class Catalogue:
    """A catalogue that ``python -m sharpo.data webshop`` built.

    Args:
        folder: of the catalogue.

    Raises:
        DataError: there is none, it is of another format, damaged or empty, or the folder holds something else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meta = _meta(folder)
        self.fingerprint: str = self.meta["fingerprint"]
        try:
            self.shelf = Shelf(folder)
            self._tables = {kind: np.load(folder / f"goals_{kind}.npy", mmap_mode="r") for kind in KINDS}
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"the WebShop catalogue in {folder} is damaged ({error}): {_GET}") from None
        found = {"products": len(self.shelf), "goals": {kind: len(table) for kind, table in self._tables.items()}}
        if not len(self.shelf) or found != {name: self.meta[name] for name in found}:
            raise DataError(f"the WebShop catalogue in {folder} is damaged or empty (it holds {found}): {_GET}")

    @functools.cached_property
    def search(self) -> Search:
        """The index over the products' documents.

        Raises:
            DataError: it is absent, damaged, or of other products.
        """
        from sharpo.envs.search.bm25 import Bm25

        try:
            return Bm25.load(self.folder / INDEX, fingerprint=self.meta["index"])
        except DataError as error:
            said = str(error).rpartition(": ")[0]
            raise DataError(f"the WebShop catalogue in {self.folder} cannot be searched ({said}): {_GET}") from None

    def table(self, kind: Kind) -> np.ndarray:
        """Return the goals of a kind as numbers, not shuffled."""
        return self._tables[kind]

    def goal(self, kind: Kind, place: int) -> Goal:
        """Return the goal at a place of the unshuffled list.

        Args:
            kind: ``synthetic`` or ``human``.
            place: in the list.
        """
        found = self._tables[kind][place]
        product, said = self.shelf.at(int(found["row"]))
        return goals.make(product, said, kind, int(found["number"]), float(found["upper"]), float(found["weight"]))

    def attainable(self, kind: Kind, rule: OptionRule) -> np.ndarray:
        """Return which goals score 1 when exactly their product is bought with exactly their options."""
        return self._tables[kind][rule]


@functools.lru_cache(maxsize=4)
def opened(folder: Path) -> Catalogue:
    """Return the catalogue in a folder, opened once per process."""
    return Catalogue(folder)
