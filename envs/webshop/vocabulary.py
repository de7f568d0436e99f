"""The closed vocabulary of a small catalogue, for word tokenizers: every word shown, every click as one phrase."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sharpo.envs.webshop import pages
from sharpo.envs.webshop.catalogue import Catalogue
from sharpo.envs.webshop.goals import Kind

from sharpo.env import UNPARSABLE
from sharpo.errors import ConfigError

MOST_PRODUCTS = 1000
_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")
_FIXED = (
    *("WebShop", "Instruction:", "Page (Total results: )", "Price:", "Rating: N.A.", "size, and : with to [SEP]"),
    *(pages.SEARCH, pages.BACK, pages.NEXT, pages.PREVIOUS, pages.BUY, *pages.SUB_PAGES),
    *("[button] [button_] [clicked button] [clicked button_]", "You have clicked", "search[<your query>]", "click[]"),
    *("scent volume color pack length style screen shoe width weight flavor name", "the category"),
    *("and price lower than 10.00 dollars", UNPARSABLE, *pages.LAST_PAGE, "{\":'}"),
)
_WHOLE = ("find me", "and price lower than", ".00 dollars", "you have clicked", "price:")
_CLICKS = (pages.SEARCH, pages.BACK, pages.NEXT, pages.PREVIOUS, pages.BUY, *pages.SUB_PAGES)


def _texts(catalogue: Catalogue, kind: Kind, brief: bool) -> Iterator[str]:
    yield from _FIXED
    for row in range(len(catalogue.shelf)):
        product, said = catalogue.shelf.at(row)
        yield from () if brief else (product.asin,)
        yield from (product.title, product.description, product.label, *product.bullets)
        yield from (*product.attributes, product.category, product.query, product.product_category)
        for name, values in product.options:
            yield from (name, *values)
        if kind == "synthetic":
            yield said.instruction or ""
        else:
            yield from (text for text, _, _ in said.said)


def _clicks(catalogue: Catalogue) -> Iterator[str]:
    yield from _CLICKS
    for row in range(len(catalogue.shelf)):
        product, _ = catalogue.shelf.at(row)
        yield product.asin
        for _, values in product.options:
            yield from values


def _phrases(catalogue: Catalogue) -> Iterator[str]:
    """Yield what goals and pages say as a whole: fewer tokens to read and to copy."""
    yield from _WHOLE
    for row in range(len(catalogue.shelf)):
        product, _ = catalogue.shelf.at(row)
        yield from (*product.attributes, *(f"{own}," for own in product.attributes), product.query)
        for name, values in product.options:
            yield from (f"{name}:", *values)


def words(catalogue: Catalogue, kind: Kind, brief: bool = False) -> tuple[str, ...]:
    """Return the words and phrases that cover every text over a catalogue, longest first.

    Args:
        catalogue: a small one.
        kind: of goals.
        brief: the observations are ``brief``, in which no product is called by its own name.

    Raises:
        ConfigError: the catalogue has too many products.
    """
    if len(catalogue.shelf) > MOST_PRODUCTS:
        raise ConfigError(
            f"the catalogue in {catalogue.folder} has {len(catalogue.shelf):,} products; a word-level tokenizer is "
            f"made for at most {MOST_PRODUCTS:,}: use a pretrained model, or "
            "`python -m sharpo.data webshop demo --products 240 --target FOLDER` and env.catalogue=FOLDER"
        )
    found = {word for text in _texts(catalogue, kind, brief) for word in _WORD.findall(text.lower())}
    found |= {str(number) for number in (*range(101), *range(110, 1000, 10))}  # pages, results, scores, bounds
    found |= {f"{cents:02d}" for cents in range(10)}
    found |= {" ".join(text.lower().split()) for text in _phrases(catalogue)} - {""}
    clicks = (*_CLICKS, *(f"item {place}" for place in range(1, pages.BRIEF_PAGE_SIZE + 1)))
    clicked = clicks if brief else _clicks(catalogue)
    found |= {f"click[{' '.join(text.lower().split())}]" for text in clicked} | {"search[", "click["}
    return tuple(sorted(found, key=lambda entry: (-len(entry), entry)))
