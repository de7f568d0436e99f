"""What a purchase is worth: kind of product, attributes, options and price, by the original's rule or a mended one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sharpo.envs.webshop.colours import COLOURS, by_substring, by_word
from sharpo.envs.webshop.fuzzy import same
from sharpo.envs.webshop.goals import Goal
from sharpo.envs.webshop.products import Product

OptionRule = Literal["legacy", "fixed"]
OPTION_RULES = get_args(OptionRule)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A purchase's score and its parts.

    Args:
        score: (attributes + options + price met) / (attributes + options + 1) · kind, in [0, 1].
        kind: 1, 0.5, 0.1 or 0: whether it is the kind of product that was asked for.
        attributes: share of the goal's attributes that are met; 0 when there are none.
        options: share of the goal's options that are met, None when it has none.
        price: whether the price is within the bound.
        query_match: found by the same search.
        category_match: at least two places in the shop in common.
        title_score: share of the goal title's nouns that the product's title has.
    """

    score: float
    kind: float
    attributes: float
    options: float | None
    price: bool
    query_match: bool
    category_match: bool
    title_score: float

    @property
    def success(self) -> bool:
        """True when everything that was asked for is met."""
        return self.score == 1.0


def _places(category: str) -> set[str]:
    return {place.strip() for place in category.split("›")}


def kind(product: Product, goal: Goal, goal_nouns: Sequence[str]) -> tuple[float, bool, bool, float]:
    """Return how far a product is of the goal's kind, and the three comparisons it comes from.

    Args:
        product: that is bought; its title's nouns included.
        goal: what was asked for.
        goal_nouns: the nouns of the goal's title, with repeats.
    """
    query_match = product.query == goal.query
    category_match = len(_places(product.product_category) & _places(goal.product_category)) >= 2
    common = len(set(product.nouns) & set(goal_nouns))
    title_score = common / len(goal_nouns) if goal_nouns else 0.2
    worth = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    if title_score < 0.1:
        worth = 0.1
    if title_score == 0.0:
        worth = 0.0
    return worth, query_match, category_match, title_score


def attributes_met(product: Product, wanted: Sequence[str]) -> int:
    """Count the wanted attributes that a product lists, or has word for word in its texts."""
    texts = (product.title.lower(), " ".join(product.bullets).lower(), product.description.lower())
    return sum(
        any(same(own, want) for own in product.attributes) or any(want in text for text in texts) for want in wanted
    )


def _of_pair(name: str, value: str) -> str:
    """Return what the original compares for a named option: a colour word alone, else the pair as Python prints it."""
    return next((colour for colour in COLOURS if colour in (name, value)), str((name, value)))


def options_met(chosen: Mapping[str, str], wanted: Sequence[tuple[str, str] | str], rule: OptionRule) -> int:
    """Count the wanted options that were chosen.

    ``legacy``: names of synthetic options take part in the comparison, and colours hide inside other words on the
    chosen side alone. ``fixed``: values are compared, colours are whole words on both sides.

    Args:
        chosen: the purchase's options.
        wanted: the goal's.
        rule: how they are compared.
    """
    simple: Callable[[str], str] = by_substring if rule == "legacy" else by_word
    bought = [simple(value) for value in chosen.values()]
    asked = []
    for want in wanted:
        if isinstance(want, str):
            asked.append(simple(want))
        else:
            asked.append(_of_pair(*want) if rule == "legacy" else simple(want[1]))
    return sum(any(same(have, want) for have in bought) for want in asked)


def judge(
    product: Product,
    chosen: Mapping[str, str],
    goal: Goal,
    goal_nouns: Sequence[str],
    rule: OptionRule = "legacy",
) -> Verdict:
    """Return what buying a product with the chosen options is worth for a goal (Yao et al. 2022, §3).

    Args:
        product: that is bought.
        chosen: option names and values.
        goal: what was asked for.
        goal_nouns: the nouns of the goal's title.
        rule: how options are compared.
    """
    worth, query_match, category_match, title_score = kind(product, goal, goal_nouns)
    attributes = attributes_met(product, goal.attributes)
    options = options_met(chosen, goal.options, rule)
    price = product.price <= goal.price_upper
    asked = len(goal.attributes) + len(goal.options) + 1
    return Verdict(
        score=(attributes + options + price) / asked * worth,
        kind=worth,
        attributes=attributes / len(goal.attributes) if goal.attributes else 0.0,
        options=options / len(goal.options) if goal.options else None,
        price=price,
        query_match=query_match,
        category_match=category_match,
        title_score=title_score,
    )
