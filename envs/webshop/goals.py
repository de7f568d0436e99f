"""Goals: what a shopper is asked to buy; synthetic ones from attributes and options, human ones from people's words."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sharpo.envs.webshop.products import Product

from sharpo.errors import DataError

PRICE_RANGE = tuple(10.0 * i for i in range(1, 100))
NO_BOUND = 1000000.0
SHUFFLE_SEED = 233
"""Goals are put in order by this seed: goal numbers mean the same goal everywhere."""
_CLOSE = 4


@dataclass(frozen=True, slots=True)
class Goal:
    """One thing to buy.

    Args:
        asin: the product it was made from.
        category: that product's family.
        query: the search that product was found by.
        name: that product's title.
        product_category: its place in the shop.
        instruction: what the shopper is told.
        attributes: what the purchase must be.
        options: what must be chosen: pairs of name and value (synthetic), or values alone (human).
        price_upper: the most it may cost, in dollars.
        weight: how likely a random draw is to take it, unnormalised.
    """

    asin: str
    category: str
    query: str
    name: str
    product_category: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...] | tuple[str, ...]
    price_upper: float
    weight: float = 1.0


def bound(price: float, draws: random.Random) -> tuple[float, str]:
    """Return a price bound above a price, and how an instruction says it.

    Args:
        price: of the goal's product, in dollars.
        draws: where the bound comes from.
    """
    above = [step for step in PRICE_RANGE if step > price][:_CLOSE]
    if len(above) < 2:
        return NO_BOUND, ""
    upper = max(draws.sample(above, 2))
    return upper, f", and price lower than {upper:.2f} dollars"


def _goal(product: Product, text: str, attributes: Sequence[str], options: Any, upper: float) -> Goal:
    return Goal(
        asin=product.asin,
        category=product.category,
        query=product.query,
        name=product.title,
        product_category=product.product_category,
        instruction=text,
        attributes=tuple(attributes),
        options=options,
        price_upper=upper,
    )


def synthetic(products: Sequence[Product], attributes: Mapping[str, Any], draws: random.Random) -> list[Goal]:
    """Return one goal for each combination of a product's options, for every product with an instruction.

    Args:
        products: the catalogue.
        attributes: ``items_ins_v2.json``.
        draws: where price bounds come from, one a product.

    Raises:
        DataError: a product has no entry.
    """
    goals: list[Goal] = []
    for product in products:
        if product.asin not in attributes:
            raise DataError(f"product {product.asin} has no entry in the attributes file: use the two files of one set")
        entry = attributes[product.asin]
        instruction = entry.get("instruction")
        if not instruction:
            continue
        upper, price_text = bound(product.price, draws)
        named = sorted(product.options)
        for values in itertools.product(*(values for _, values in named)):
            chosen = tuple((name, value) for (name, _), value in zip(named, values, strict=True))
            said = ", and ".join(f"{name}: {value}" for name, value in chosen)
            text = f"{instruction}{' with ' + said if chosen else ''}{price_text}"
            goals.append(_goal(product, text, entry["instruction_attributes"], chosen, upper))
    return _weighted(goals)


def _weighted(goals: list[Goal]) -> list[Goal]:
    carried = Counter(name for goal in goals for name in goal.attributes)
    return [
        replace(goal, weight=sum(1 / carried[name] for name in goal.attributes) / len(goal.attributes))
        if goal.attributes
        else replace(goal, weight=0.0)
        for goal in goals
    ]


def human(products: Sequence[Product], said: Mapping[str, Any], draws: random.Random) -> list[Goal]:
    """Return one goal for each instruction that people wrote and that names an attribute.

    Args:
        products: the catalogue.
        said: ``items_human_ins.json``.
        draws: where price bounds come from, one an instruction.
    """
    goals = []
    for product in products:
        for entry in said.get(product.asin, ()):
            if not entry["instruction_attributes"]:
                continue
            upper, price_text = bound(product.price, draws)
            text = entry["instruction"].strip(".") + price_text
            wanted = tuple(entry["instruction_options"])
            goals.append(_goal(product, text, entry["instruction_attributes"], wanted, upper))
    return goals


def order(count: int, seed: int = SHUFFLE_SEED) -> list[int]:
    """Return where each numbered goal lies in the unshuffled list.

    Args:
        count: how many goals there are.
        seed: of the shuffle.
    """
    places = list(range(count))
    random.Random(seed).shuffle(places)  # noqa: S311
    return places


def draw(weights: Sequence[float], draws: random.Random) -> int:
    """Return the number of a goal drawn by weight, as the original draws.

    Its bounds start with 0, so goal 0 is never drawn, goal i+1 comes with the weight of goal i, and the last goal has
    two shares.

    Args:
        weights: of the goals in order.
        draws: where the number comes from.
    """
    bounds = [0.0, *itertools.accumulate(weights)]
    return min(bisect_right(bounds, draws.uniform(0, bounds[-1])), len(weights) - 1)
