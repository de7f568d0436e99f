"""Which goals are for training and which for validation: the benchmark's ways, its leak, and one without leak."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from sharpo.envs.webshop import goals
from sharpo.envs.webshop.catalogue import Catalogue, opened
from sharpo.envs.webshop.goals import Kind
from sharpo.envs.webshop.reward import OptionRule

from sharpo.errors import ConfigError
from sharpo.seeding import derive

GoalSplit = Literal["index", "paper", "asin", "legacy_workers"]
GOAL_SPLITS = get_args(GoalSplit)
HELD_OUT = 500
"""Goals that the benchmark family holds out: the first of the shuffled list."""
PAPER_TEST, PAPER_EVAL = 500, 1500
TRAIN_WORKERS, VAL_WORKERS, VAL_OFFSET = 16, 128, 1000
ONE_IN = 10
PER_PRODUCT = 12
"""In the split by product, at most this many validation goals of one product: one product can own hundreds."""


@functools.lru_cache(maxsize=4)
def numbered(count: int) -> np.ndarray:
    """Return where each goal number of the benchmark's shuffled list lies in the unshuffled one."""
    return np.array(goals.order(count), np.int64)


@functools.lru_cache(maxsize=8)
def split(
    folder: Path, kind: Kind, way: GoalSplit, attainable: OptionRule | None, seed: int = 0
) -> Mapping[str, np.ndarray]:
    """Return each split's goals as places in the catalogue's unshuffled list, in the order of their numbers.

    ``index``: of the list shuffled by seed 233, the first 500 are for validation. ``paper``: 500 for test, the next
    1,000 for validation. ``asin``: one product in ten is for validation, so no product is in both.
    ``legacy_workers``: as released, every worker shuffles by its own seed before it takes its first 500, so a goal
    number means another goal in each and the validation goals are trained on.

    Args:
        folder: the catalogue's.
        kind: of goals.
        way: of splitting.
        attainable: keep only goals that the exact purchase meets under this rule; None for all.
        seed: of ``legacy_workers``.

    Raises:
        ConfigError: the catalogue has too few goals.
    """
    catalogue = opened(folder)
    count = len(catalogue.table(kind))
    if way == "asin":
        made = _by_product(catalogue, kind, numbered(count))
    elif way == "legacy_workers":
        _enough(count, HELD_OUT, kind, way)
        train = [goals.order(count, seed + worker)[HELD_OUT:] for worker in range(TRAIN_WORKERS)]
        val = [goals.order(count, seed + VAL_OFFSET + worker)[:HELD_OUT] for worker in range(VAL_WORKERS)]
        made = {"train": np.array(train, np.int64).T.ravel(), "val": np.array(val, np.int64).T.ravel()}
    else:
        _enough(count, PAPER_EVAL if way == "paper" else HELD_OUT, kind, way)
        order = numbered(count)
        if way == "paper":
            made = {"test": order[:PAPER_TEST], "val": order[PAPER_TEST:PAPER_EVAL], "train": order[PAPER_EVAL:]}
        else:
            made = {"val": order[:HELD_OUT], "train": order[HELD_OUT:]}
    if attainable is not None:
        met = catalogue.attainable(kind, attainable)
        made = {name: places[met[places]] for name, places in made.items()}
    for name, places in made.items():
        if not len(places):
            raise ConfigError(f"env.goal_split={way}: {name} has no {kind} goal in this catalogue; {_REMEDY}")
    return made


_REMEDY = "choose env.goals=synthetic, another env.goal_split, or a larger catalogue"


def _enough(count: int, held: int, kind: Kind, way: GoalSplit) -> None:
    if count <= held:
        raise ConfigError(
            f"env.goal_split={way} holds out {held} goals, but this catalogue has {count} {kind} ones; {_REMEDY}"
        )


def _by_product(catalogue: Catalogue, kind: Kind, order: np.ndarray) -> dict[str, np.ndarray]:
    rows = catalogue.table(kind)["row"]
    held = {row for row in np.unique(rows).tolist() if _is_held(catalogue.shelf.at(row)[0].asin)}
    val, train, taken = [], [], Counter[int]()
    for place in order.tolist():
        row = int(rows[place])
        if row not in held:
            train.append(place)
        elif taken[row] < PER_PRODUCT:
            taken[row] += 1
            val.append(place)
    return {"train": np.array(train, np.int64), "val": np.array(val, np.int64)}


def _is_held(asin: str) -> bool:
    return derive(0, "webshop", "asin", asin) % ONE_IN == 0
