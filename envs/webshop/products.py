"""A product as data, and how raw rows of the catalogue's files become products."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sharpo.errors import DataError

PRICELESS = 100.0
"""What a product without a price costs."""
LONGEST_ASIN = 10
DUMMY = ("DUMMY_ATTR",)
_NEEDED = ("name", "full_description", "small_description", "query", "category", "product_category")
Options = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Product:
    """One product.

    Args:
        asin: its unique name.
        title: as shown.
        description: the long text.
        bullets: the features.
        label: the price as shown.
        price: what it costs for the reward and the goal's bound, in dollars.
        options: each option's name and its values, in the order shown.
        attributes: what the product is, by words that goals ask for.
        query: the search it was found by.
        category: its family.
        product_category: its place in the shop, ``A › B › C``.
        nouns: the nouns of its title, lower-cased, with repeats.
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    label: str
    price: float
    options: Options
    attributes: tuple[str, ...]
    query: str
    category: str
    product_category: str
    nouns: tuple[str, ...] = ()

    def document(self) -> str:
        """Return the text that the search engine indexes."""
        chosen = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        return " ".join([self.title, self.description, self.bullets[0] if self.bullets else "", chosen]).lower()


def prices(text: str | None, asin: str) -> tuple[tuple[float, ...], str]:
    """Return a product's one price or lowest and highest, and the price as shown.

    Args:
        text: for example ``$12.50`` or ``$12.50 - $15.99``; empty for none.
        asin: whose it is, for the message.

    Raises:
        DataError: the text holds no price.

    Example:
        >>> prices("$12.50 - $1,018.99", "A")
        ((12.5, 1018.99), '$12.5 to $1018.99')
    """
    if not text:
        return (PRICELESS,), f"${PRICELESS}"
    try:
        found = tuple(float(re.sub(r"[^\d.]", "", piece)) for piece in text.split("$")[1:])
    except ValueError:
        found = ()
    if not found:
        raise DataError(f"product {asin}: its pricing {text!r} holds no price after a $; mend the catalogue's file")
    if len(found) == 1:
        return found, f"${found[0]}"
    return found[:2], f"${found[0]} to ${found[1]}"


def options(raw: Mapping[str, Any] | str | None) -> Options:
    """Return option names and values as they are shown; a name without a list is left out, repeats stay.

    Example:
        >>> options({"Size": [{"value": " X/L "}], "Color": None})
        (('size', ('x | l',)),)
    """
    shown: dict[str, tuple[str, ...]] = {}
    for name, contents in (raw or {}).items() if not isinstance(raw, str) else ():
        if contents is not None:
            shown[name.lower()] = tuple(str(part["value"]).strip().replace("/", " | ").lower() for part in contents)
    return tuple(shown.items())


def usable(rows: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Yield the rows that become products: a valid asin, each once, in the file's order.

    Raises:
        DataError: a row has no asin.
    """
    seen: set[str] = set()
    for row in rows:
        asin = row.get("asin") if isinstance(row, Mapping) else None
        if not isinstance(asin, str):
            raise DataError("the products' file has a row without an asin: it is to be items_shuffle.json")
        if asin == "nan" or len(asin) > LONGEST_ASIN or asin in seen:
            continue
        seen.add(asin)
        yield row


def product(row: Mapping[str, Any], attributes: Mapping[str, Any]) -> tuple[Product, tuple[float, ...]]:
    """Return a row as a product, its price not yet drawn, and the price or range.

    Args:
        row: one product of ``items_shuffle.json``.
        attributes: the whole of ``items_ins_v2.json``.

    Raises:
        DataError: the row lacks something.
    """
    asin = row["asin"]
    if missing := [name for name in _NEEDED if name not in row]:
        raise DataError(f"product {asin}: its row has no {missing[0]}; the products' file is to be items_shuffle.json")
    small = row["small_description"]
    found, label = prices(row.get("pricing"), asin)
    own = attributes.get(asin, {}).get("attributes", DUMMY)
    made = Product(
        asin=asin,
        title=row["name"],
        description=row["full_description"],
        bullets=tuple(small) if isinstance(small, list) else (small,),
        label=label,
        price=found[0],
        options=options(row.get("customization_options")),
        attributes=tuple(own),
        query=row["query"].lower().strip(),
        category=row["category"],
        product_category=row["product_category"],
    )
    return made, found


def load(
    rows: Iterable[Mapping[str, Any]], attributes: Mapping[str, Any], draws: random.Random, limit: int | None = None
) -> list[Product]:
    """Return the catalogue's products; a price range becomes one price, drawn in product order.

    Args:
        rows: ``items_shuffle.json``.
        attributes: ``items_ins_v2.json``.
        draws: where range prices come from; goals go on with it.
        limit: use only the first rows of the file.
    """
    made = []
    taken = list(rows)[:limit] if limit is not None else rows
    for row in usable(taken):
        one, found = product(row, attributes)
        made.append(one if len(found) == 1 else replace(one, price=draws.uniform(*found)))
    return made
