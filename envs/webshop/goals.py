"""Goals: what a shopper is asked to buy; synthetic ones from attributes and options, human ones from people's words."""

from __future__ import annotations

import itertools
import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sharpo.envs.webshop.products import Product

from sharpo.errors import DataError

Kind = Literal["synthetic", "human"]
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


def bound(price: float, draws: random.Random) -> float:
    """Return a price bound above a price.

    Args:
        price: of the goal's product, in dollars.
        draws: where the bound comes from.
    """
    above = [step for step in PRICE_RANGE if step > price][:_CLOSE]
    if len(above) < 2:
        return NO_BOUND
    return max(draws.sample(above, 2))


class Entry(NamedTuple):
    """What is said about a product.

    Args:
        instruction: of its synthetic goals, None when it has none.
        wanted: attributes that its synthetic goals ask for.
        said: each human instruction with its attributes and options.
    """

    instruction: str | None = None
    wanted: tuple[str, ...] = ()
    said: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()


class Place(NamedTuple):
    """One goal as numbers: its product's row, its number among that product's goals, its price bound in dollars."""

    row: int
    number: int
    upper: float


def entry(asin: str, attributes: Mapping[str, Any], human: Mapping[str, Any]) -> Entry:
    """Return what the files say about a product.

    Args:
        asin: the product.
        attributes: ``items_ins_v2.json``.
        human: ``items_human_ins.json``.

    Raises:
        DataError: the first file has no entry for the product.
    """
    if asin not in attributes:
        raise DataError(f"product {asin} has no entry in the attributes file: use the two files of one set")
    found = attributes[asin]
    said = tuple(
        (one["instruction"], tuple(one["instruction_attributes"]), tuple(one["instruction_options"]))
        for one in human.get(asin, ())
    )
    return Entry(found.get("instruction"), tuple(found.get("instruction_attributes") or ()), said)


def combinations(product: Product) -> int:
    """Return how many ways of choosing every option a product has; 0 when an option has no values."""
    return math.prod(len(values) for _, values in product.options)


def combination(product: Product, number: int) -> tuple[tuple[str, str], ...]:
    """Return one way of choosing every option: names sorted, the last name's values change first."""
    chosen = []
    for name, values in sorted(product.options, reverse=True):
        number, place = divmod(number, len(values))
        chosen.append((name, values[place]))
    return tuple(reversed(chosen))


def synthetic_places(shelf: Iterable[tuple[Product, Entry]], draws: random.Random) -> Iterator[Place]:
    """Yield one goal for each combination of options of every product with an instruction; one bound a product.

    Args:
        shelf: products in order, each with its entry.
        draws: where price bounds come from.
    """
    for row, (product, said) in enumerate(shelf):
        if said.instruction:
            upper = bound(product.price, draws)
            for number in range(combinations(product)):
                yield Place(row, number, upper)


def human_places(shelf: Iterable[tuple[Product, Entry]], draws: random.Random) -> Iterator[Place]:
    """Yield one goal for each instruction that people wrote and that names an attribute; one bound each.

    Args:
        shelf: products in order, each with its entry.
        draws: where price bounds come from.
    """
    for row, (product, said) in enumerate(shelf):
        for number, (_, wanted, _) in enumerate(said.said):
            if wanted:
                yield Place(row, number, bound(product.price, draws))


def make(product: Product, said: Entry, kind: Kind, number: int, upper: float, weight: float = 1.0) -> Goal:
    """Return a goal from its product and its numbers.

    Args:
        product: it is made from.
        said: about the product.
        kind: ``synthetic`` or ``human``.
        number: of the goal among the product's.
        upper: price bound in dollars.
        weight: in random draws.
    """
    price = f", and price lower than {upper:.2f} dollars" if upper != NO_BOUND else ""
    options: tuple[tuple[str, str], ...] | tuple[str, ...]
    if kind == "human":
        text, wanted, options = said.said[number]
        text = text.strip(".") + price
    else:
        options, wanted = combination(product, number), said.wanted
        words = ", and ".join(f"{name}: {value}" for name, value in options)
        text = f"{said.instruction}{' with ' + words if options else ''}{price}"
    return Goal(
        asin=product.asin,
        category=product.category,
        query=product.query,
        name=product.title,
        product_category=product.product_category,
        instruction=text,
        attributes=wanted,
        options=options,
        price_upper=upper,
        weight=weight,
    )


def weights(wanted: Sequence[tuple[tuple[str, ...], int]]) -> list[float]:
    """Return the weight of each product's synthetic goals: mean over its attributes of 1 / (goals that carry it).

    Args:
        wanted: each product's attributes and number of goals.
    """
    carried: Counter[str] = Counter()
    for names, count in wanted:
        for name in names:
            carried[name] += count
    return [
        sum(1 / carried[name] for name in names) / len(names) if names and count else 0.0 for names, count in wanted
    ]


def synthetic(shelf: Sequence[tuple[Product, Entry]], draws: random.Random) -> list[Goal]:
    """Return all synthetic goals, not yet shuffled."""
    places = list(synthetic_places(shelf, draws))
    counts = Counter(place.row for place in places)
    worth = weights([(said.wanted, counts[row]) for row, (_, said) in enumerate(shelf)])
    return [make(*shelf[row], "synthetic", number, upper, worth[row]) for row, number, upper in places]


def human(shelf: Sequence[tuple[Product, Entry]], draws: random.Random) -> list[Goal]:
    """Return all human goals, not yet shuffled."""
    return [make(*shelf[row], "human", number, upper) for row, number, upper in human_places(shelf, draws)]


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
