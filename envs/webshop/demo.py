"""A catalogue of made-up products, from a seed: to try, test and teach the environment without anybody's data."""

from __future__ import annotations

import random
from typing import Any

from sharpo.envs.webshop.build import Source
from sharpo.envs.webshop.demo_words import ATTRIBUTES, ENDS, KINDS, MATERIALS, STARTS, VALUES, Kind

from sharpo.errors import ConfigError

LEVELS = 4
FEWEST, MOST = 60, 100_000
_HUMAN_EVERY = 3
_ASK = (
    "i am looking for {what} that is {wanted}{options}.",
    "i need {what}, {wanted}{options}.",
    "please find {what} which is {wanted}{options}.",
)


def source(products: int = 3000, seed: int = 0) -> Source:
    """Return made-up files: products of 30 kinds, synthetic goals of graded difficulty, and worded ones.

    Level 0 asks for one feature and no option, level 3 for three features and two options; near neighbours of the
    same kind differ in features, options and price.

    Args:
        products: how many, over all kinds in turn.
        seed: of everything.

    Raises:
        ConfigError: too few or too many products.
    """
    if not FEWEST <= products <= MOST:
        raise ConfigError(f"products must be {FEWEST} to {MOST}, got {products}")
    draws = random.Random(seed)  # noqa: S311
    rows: list[dict[str, Any]] = []
    attributes: dict[str, Any] = {}
    human: dict[str, Any] = {}
    nouns: dict[str, tuple[str, ...]] = {}
    for number, name in enumerate(draws.sample(range(10**6), products)):
        kind = KINDS[number % len(KINDS)]
        level = number // len(KINDS) % LEVELS
        asin = f"D{name:06d}"
        row, has, wanted = _product(asin, kind, level, draws)
        rows.append(row)
        nouns[asin] = tuple(dict.fromkeys(f"{row['name'].split()[0]} {kind.name}".lower().replace("-", " ").split()))
        attributes[asin] = {
            "attributes": has,
            "instruction": f"Find me {', '.join(wanted)} {kind.query}",
            "instruction_attributes": wanted,
        }
        if number % _HUMAN_EVERY == 0:
            human[asin] = [_said(row, kind, wanted, draws)]
    return Source(rows, attributes, human, nouns)


def _product(asin: str, kind: Kind, level: int, draws: random.Random) -> tuple[dict[str, Any], list[str], list[str]]:
    has = draws.sample(ATTRIBUTES[kind.family], 5)
    wanted = has[: min(3, level + 1)]
    brand, material = draws.choice(STARTS) + draws.choice(ENDS), draws.choice(MATERIALS[kind.family])
    told = draws.sample(has, 2)
    title = f"{brand} {material.title()} {kind.name.title()}, {told[0].title()}, {told[1].title()}"
    groups = kind.options[: (0, 1, 1, 2)[level]]
    options = {group: [{"value": value} for value in _some(VALUES[group], draws)] for group in groups}
    row = {
        "asin": asin,
        "name": title,
        "full_description": f"A {material} {kind.name} by {brand}: {', '.join(has[:3])}. Made for every day.",
        "small_description": [f"{feature.capitalize()} {kind.name}" for feature in has],
        "pricing": _pricing(kind, draws),
        "images": [],
        "product_category": kind.place,
        "category": kind.family,
        "query": kind.query,
        "customization_options": options or None,
    }
    return row, has, wanted


def _some(values: tuple[str, ...], draws: random.Random) -> list[str]:
    count = draws.randint(2, min(4, len(values)))
    return [values[place] for place in sorted(draws.sample(range(len(values)), count))]


def _pricing(kind: Kind, draws: random.Random) -> str:
    low = round(draws.uniform(kind.low, kind.high), 2)
    if draws.random() < 0.1:
        return f"${low:.2f} - ${low + draws.randint(2, 12):.2f}"
    return f"${low:.2f}"


def _said(row: dict[str, Any], kind: Kind, wanted: list[str], draws: random.Random) -> dict[str, Any]:
    chosen = [
        (group, draws.choice(contents)["value"].lower())
        for group, contents in (row["customization_options"] or {}).items()
    ]
    options = "".join(f", in {value} {group}" for group, value in chosen)
    text = draws.choice(_ASK).format(what=kind.query, wanted=" and ".join(wanted), options=options)
    values = [value for _, value in chosen]
    return {"instruction": text, "instruction_attributes": wanted, "instruction_options": values}
