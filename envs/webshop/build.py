"""Builds a catalogue from the original's files: products with prices and nouns, goals, search index, a fingerprint."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sharpo.envs.webshop import goals, records
from sharpo.envs.webshop.catalogue import (
    ASIN,
    FORMAT,
    GOAL,
    INDEX,
    META,
    PRODUCTS,
    Catalogue,
    Shelf,
    described,
    from_record,
    opened,
    to_record,
)  # fmt: skip
from sharpo.envs.webshop.goals import Entry, Goal
from sharpo.envs.webshop.oracle import exact_options
from sharpo.envs.webshop.products import Product, product, usable
from sharpo.envs.webshop.reward import attributes_met, kind, options_met
from sharpo.envs.webshop.tagging import Tagging

from sharpo.errors import DataError

Progress = Callable[[str, int, int | None], None]
_BATCH = 1000
"""Titles tagged at once, and kept as one part."""
PARTS = "nouns"
_HUMAN = "items_human_ins"


@dataclass(frozen=True, slots=True)
class Source:
    """The files a catalogue is made from.

    Args:
        rows: ``items_shuffle.json``; it may be a stream.
        attributes: ``items_ins_v2.json``.
        human: ``items_human_ins.json``.
        nouns: title nouns by asin, where they are known without a tagger.
    """

    rows: Iterable[Mapping[str, Any]]
    attributes: Mapping[str, Any]
    human: Mapping[str, Any]
    nouns: Mapping[str, tuple[str, ...]] | None = None


def source(folder: Path, limit: int | None = None) -> Source:
    """Return the original's files in a folder, the full ones where there are any, else the 1,000-product ones.

    Args:
        folder: holds ``items_shuffle*.json``, ``items_ins_v2*.json`` and, for human goals, ``items_human_ins*.json``.
        limit: use only the first products.

    Raises:
        DataError: a file is missing.
    """
    for items, ins in (("items_shuffle", "items_ins_v2"), ("items_shuffle_1000", "items_ins_v2_1000")):
        shelf, said = folder / f"{items}.json", folder / f"{ins}.json"
        if shelf.exists() and said.exists():
            people = sorted(folder.glob(f"{_HUMAN}*.json"))
            return files(shelf, said, people[0] if people else None, limit)
    raise DataError(
        f"no WebShop files in {folder}: it must hold items_shuffle.json and items_ins_v2.json, or the two that end in "
        "_1000; the original's setup script fetches them, or take the demo: python -m sharpo.data webshop demo"
    )


def files(items: Path, attributes: Path, human: Path | None = None, limit: int | None = None) -> Source:
    """Return the original's files, each by its own path.

    Args:
        items: ``items_shuffle.json``, a list of products.
        attributes: ``items_ins_v2.json``.
        human: ``items_human_ins.json``; None for no human goals.
        limit: use only the first products.

    Raises:
        DataError: a file is missing or cannot be read.
    """
    if not items.is_file():
        raise DataError(f"no file {items}: it is to be the list of products, items_shuffle.json")
    rows = itertools.islice(records.stream(items), limit)
    return Source(rows, _read(attributes), _read(human) if human is not None else {})


def _read(path: Path) -> Mapping[str, Any]:
    """Return a file that maps asins to what is said of the product."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}): the original's setup script fetches it") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} holds no entries by asin: it is to be items_ins_v2.json or items_human_ins.json")
    return found


def build(
    given: Source,
    target: Path,
    model: str,
    price_seed: int = 0,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Catalogue:
    """Make a catalogue and open it; the folder appears when everything in it is complete.

    What takes long, the nouns of the titles and the analysis of the documents, is kept in parts by their content: a
    build that was interrupted or killed takes those that are there.

    Args:
        given: the files.
        target: of the catalogue; an older catalogue there is replaced.
        model: a spaCy model that finds the titles' nouns, or ``words``.
        price_seed: of range prices and price bounds.
        progress: called with a stage's name, how many of its parts are done, and of how many where that is known.
        workers: processes that tag and analyse; None = one per core, at most 8. Small catalogues need only this one.

    Raises:
        DataError: a file is damaged, or the target holds something else.
    """
    tell = progress or (lambda *_: None)
    many = workers if workers is not None else min(8, os.cpu_count() or 1)
    if target.exists() and not target.is_dir():
        raise DataError(f"{target} is a file, not a folder: choose another --target")
    if target.exists() and any(target.iterdir()) and described(target) is None:
        raise DataError(f"{target} holds other files than a WebShop catalogue: choose another --target")
    work = target.with_name(f"{target.name}.part")
    try:
        (work / PARTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{target} cannot be made ({error.strerror}): choose another --target") from error
    try:
        _fill(work, given, random.Random(price_seed), (model, many), price_seed, tell)  # noqa: S311
        shutil.rmtree(work / PARTS)
        shutil.rmtree(target, ignore_errors=True)
        work.rename(target)
    except BaseException:
        if not any((work / PARTS).glob("*.json")) and not (work / INDEX).exists():  # nothing to go on from
            shutil.rmtree(work, ignore_errors=True)
        raise
    opened.cache_clear()
    return Catalogue(target)


def _fill(
    work: Path, given: Source, draws: random.Random, tagging: tuple[str, int], price_seed: int, tell: Progress
) -> None:
    """Write everything of a catalogue into a folder; its description last."""
    from sharpo.envs.search.bm25 import Bm25

    tagger: list[str] = []
    try:
        count = records.save(work / PRODUCTS, _shelve(given, draws, Tagging(work / PARTS, *tagging, tagger), tell))
    except ValueError as error:
        raise DataError(f"the products' file cannot be read: {error}") from error
    if not count:
        raise DataError("the products' file has no usable product")
    _index_names(work)
    shelf = Shelf(work)
    counts = {}
    after_prices = draws.getstate()
    for name, places in (("synthetic", goals.synthetic_places), ("human", goals.human_places)):
        draws.setstate(after_prices)
        made = _goals(shelf, name, list(places(_pairs(shelf), draws)))
        np.save(work / f"goals_{name}.npy", made)
        counts[name] = len(made)
        tell(f"goals {name}", len(made), len(made))
    index = Bm25.build(
        _Documents(shelf), work / INDEX, workers=tagging[1], on_progress=lambda done: tell("index", done, count)
    )
    meta = {
        "format": FORMAT, "products": count, "goals": counts, "nouns": tagger[0], "price_seed": price_seed,
        "index": index.fingerprint, "fingerprint": fingerprint(work, tagger[0]),
    }  # fmt: skip
    (work / META).write_text(json.dumps(meta, indent=1), encoding="utf-8")


class _Documents:
    """What the search engine indexes; can be read again, so that a finished index is known again."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((one.asin, one.document()) for one, _ in _pairs(self._shelf))


def _shelve(given: Source, draws: random.Random, tagging: Tagging, tell: Progress) -> Iterator[dict[str, Any]]:
    """Yield every product as a record: its price drawn, its title's nouns found, in batches."""
    stated, done = given.nouns, 0
    if stated is None:
        pairs = tagging.nouns(_batches(given, draws))
    else:
        tagging.name[:] = ["stated"]
        pairs = ((made, [stated[one.asin] for one in made]) for made in _batches(given, draws))
    for made, words in pairs:
        for one, own in zip(made, words, strict=True):
            yield to_record(replace(one, nouns=own), goals.entry(one.asin, given.attributes, given.human))
        done += len(made)
        tell("products", done, None)


def _batches(given: Source, draws: random.Random) -> Iterator[list[Product]]:
    """Yield the products in batches, their prices drawn in their order."""
    rows = iter(usable(given.rows))
    while batch := list(itertools.islice(rows, _BATCH)):
        made = []
        for row in batch:
            one, found = product(row, given.attributes)
            made.append(one if len(found) == 1 else replace(one, price=draws.uniform(*found)))
        yield made


def _pairs(shelf: Shelf) -> Iterator[tuple[Product, Entry]]:
    return (shelf.at(row) for row in range(len(shelf)))


def _index_names(folder: Path) -> None:
    """Write the asins sorted, and the row of each."""
    read = records.Records(folder / PRODUCTS)
    names = np.array([from_record(read[row])[0].asin.encode("ascii") for row in range(len(read))], ASIN)
    order = np.argsort(names, kind="stable")
    np.save(folder / "asins.npy", names[order])
    np.save(folder / "rows.npy", order.astype(np.int32))


def _goals(shelf: Shelf, name: goals.Kind, places: list[goals.Place]) -> np.ndarray:
    """Return goals as numbers, with their weights and whether the exact purchase meets them."""
    table = np.zeros(len(places), GOAL)
    counts = Counter(place.row for place in places)
    worth = [1.0] * len(shelf)
    if name == "synthetic":
        worth = goals.weights([(said.wanted, counts[row]) for row, (_, said) in enumerate(_pairs(shelf))])
    for at, (row, number, upper) in enumerate(places):
        own, said = shelf.at(row)
        goal = goals.make(own, said, name, number, upper)
        base = _meets_all_but_options(own, goal)
        chosen = exact_options(own, goal) if base else {}
        legacy, fixed = (base and options_met(chosen, goal.options, rule) == len(goal.options) for rule in _RULES)
        table[at] = (row, number, upper, worth[row] if name == "synthetic" else 1.0, legacy, fixed)
    return table


_RULES = ("legacy", "fixed")


def _meets_all_but_options(own: Product, goal: Goal) -> bool:
    right_kind = kind(own, goal, own.nouns)[0] == 1.0
    return right_kind and own.price <= goal.price_upper and attributes_met(own, goal.attributes) == len(goal.attributes)


def fingerprint(folder: Path, tagger: str) -> str:
    """Return a hash of a catalogue's products, prices, nouns and goals, and of what found the nouns.

    Args:
        folder: of the catalogue.
        tagger: name and version.
    """
    digest = hashlib.sha256(f"webshop {FORMAT} {tagger}".encode())
    for name in (f"{PRODUCTS}.bin", "goals_synthetic.npy", "goals_human.npy"):
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:32]


def verify(folder: Path) -> Catalogue:
    """Open a catalogue and its index and recompute its fingerprint.

    Args:
        folder: of the catalogue.

    Raises:
        DataError: it is absent or damaged.
    """
    found = Catalogue(folder)
    if fingerprint(folder, found.meta["nouns"]) != found.fingerprint:
        raise DataError(f"the WebShop catalogue in {folder} is damaged (another fingerprint): build it again")
    if not found.search.top(next(iter(found.shelf.values())).title, 1):
        raise DataError(f"the search index in {folder} finds nothing of the catalogue: build it again")
    return found
