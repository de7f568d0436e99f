"""The store's pages: what each shows, as nodes of text, and what can be clicked there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sharpo.envs.webshop.goals import Goal
from sharpo.envs.webshop.products import Product

Page = Literal["index", "results", "item", "description", "features", "reviews", "attributes", "done"]
Observation = Literal["text", "text_rich", "parts", "brief"]
PAGE_SIZE = 10
BRIEF_PAGE_SIZE = 3
"""Products on a page of results, for policies that read little."""
SEPARATOR = " [SEP] "
SEARCH, BACK, NEXT, PREVIOUS, BUY = "Search", "Back to Search", "Next >", "< Prev", "Buy Now"
DESCRIPTION, FEATURES, REVIEWS, ATTRIBUTES = "Description", "Features", "Reviews", "Attributes"
SUB_PAGES: Mapping[str, Page] = {
    "description": "description",
    "features": "features",
    "reviews": "reviews",
    "attributes": "attributes",
}
_HEADER = 2
"""Nodes of every page but the index and the last that repeat the instruction."""
_BLANK = re.compile(r"[ \n\t\f\r]*")
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"})
_THANKS = (
    "Thank you for shopping with us!",
    "Your code: ",
    "None",
    " (Paste it in your MTurk interface.)",
    "Purchased",
)
_UNSHOWN = ("attrs", "None", "category", "None", "query", "None", "product category", "None")
_TARGET = (
    *("Target", "asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query"),
    *("Goal ", "None", "Reward", "Your score (min 0.0, max 1.0)"),
)

LAST_PAGE = (*_THANKS, *_UNSHOWN, *_TARGET, "Reward Details ")
"""Fixed texts of the page after a purchase."""


@dataclass(frozen=True, slots=True)
class Session:
    """Where a shopper is; a value: keep it and go on from it later.

    Args:
        goal: what is to be bought.
        page: that is shown.
        keywords: of the last search.
        number: of the page of results.
        results: asins of the last search, best first.
        asin: of the product that is shown or was bought.
        options: chosen so far, in the order in which their names were first chosen.
        visited: asins whose page was opened since the last way back to the search.
        score: of the purchase.
        page_size: products on a page of results.
    """

    goal: Goal
    page: Page = "index"
    keywords: tuple[str, ...] = ()
    number: int = 1
    results: tuple[str, ...] = ()
    asin: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    visited: frozenset[str] = field(default_factory=frozenset)
    score: float = 0.0
    page_size: int = PAGE_SIZE

    def shown(self) -> tuple[str, ...]:
        """Return the asins on the page of results."""
        return self.results[(self.number - 1) * self.page_size : self.number * self.page_size]


class Node(NamedTuple):
    """One visible piece of a page; an option also knows its option's name."""

    kind: Literal["text", "button", "link", "option"]
    text: str
    name: str = ""


def _text(text: str) -> Node | None:
    """Return a text as a browser keeps it: nothing when it is empty, one space for blanks without a line break."""
    if not text:
        return None
    if _BLANK.fullmatch(text):
        return None if "\n" in text else Node("text", " ")
    return Node("text", text)


def nodes(session: Session, product: Mapping[str, Product], show_attributes: bool = False) -> list[Node]:
    """Return what a page shows, in order.

    Args:
        session: where the shopper is.
        product: products by asin.
        show_attributes: whether an item's page leads to its attributes.
    """
    if session.page == "index":
        made = [_text("WebShop"), _text("Instruction: "), _text(session.goal.instruction), Node("button", SEARCH)]
    elif session.page == "done":
        assert session.asin is not None
        chosen = json.dumps(dict(session.options), sort_keys=True).translate(_HTML)
        score = (str(session.score), "Reward Details ", "None")
        words = (*_THANKS, "asin", session.asin, "options", chosen, *_UNSHOWN, *_TARGET, *score)
        made = [_text(word) for word in words]
    else:
        made = [_text("Instruction:"), _text(session.goal.instruction), Node("button", BACK)]
        if session.page == "results":
            made += _results(session, product)
        else:
            assert session.asin is not None
            made.append(Node("button", PREVIOUS))
            shown = product[session.asin]
            made += _item(shown, show_attributes) if session.page == "item" else _sub_page(shown, session.page)
    return [node for node in made if node is not None]


def _results(session: Session, product: Mapping[str, Product]) -> list[Node | None]:
    made = [_text(f"Page {session.number} (Total results: {len(session.results)})")]
    if session.number > 1:
        made.append(Node("button", PREVIOUS))
    made.append(Node("button", NEXT))
    for asin in session.shown():
        found = product[asin]
        made += [Node("link", asin), _text(found.title), _text(found.label)]
    return made


def _item(product: Product, show_attributes: bool) -> list[Node | None]:
    made: list[Node | None] = []
    for name, values in product.options:
        made.append(_text(name))
        made += [Node("option", value, name) for value in values]
    made += [_text(product.title), _text(f"Price: {product.label}"), _text("Rating: N.A.")]
    buttons = (DESCRIPTION, FEATURES, REVIEWS, *([ATTRIBUTES] if show_attributes else []), BUY)
    return [*made, *(Node("button", button) for button in buttons)]


def _sub_page(product: Product, page: Page) -> list[Node | None]:
    if page == "description":
        return [_text(product.description)]
    if page == "features":
        return [_text(f" {bullet}") for bullet in product.bullets]
    if page == "attributes":
        places = (product.category, product.query, product.product_category)
        return [*(_text(f" {own}") for own in product.attributes), *(_text(place) for place in places)]
    return []


def clickables(shown: list[Node]) -> dict[str, Node]:
    """Return what can be clicked, by its text: buttons, links, options; a text that repeats acts for its last owner.

    Args:
        shown: a page's nodes.
    """
    owners: dict[str, Node] = {}
    for kind in ("button", "link", "option"):
        for node in shown:
            if node.kind == kind:
                owners[node.text if kind == "option" else node.text.lower()] = node
    return owners


def render(session: Session, shown: list[Node], style: Observation) -> str:
    """Return a page as text.

    Args:
        session: where the shopper is.
        shown: the page's nodes.
        style: ``text`` (one line, parts joined by `` [SEP] ``), ``text_rich`` (one line a node, buttons marked),
            ``parts`` (``text`` without the instruction, each part in quotes), or ``brief`` (what is new on a page).
    """
    if style == "text_rich":
        return _rich(session, shown)
    if style == "brief":
        return _brief(session, shown)
    parts = [node.text.strip() for node in shown if node.kind != "option" or node.text]
    if style == "text" or session.page == "done":
        return SEPARATOR.join(parts)
    start = _HEADER if session.page != "index" else _HEADER + 1
    return SEPARATOR.join(f"'{part}'" for part in parts[start:])


def item_names(session: Session) -> dict[str, str]:
    """Return what ``brief`` calls the products on a page of results, by their names in clicks: item 1, item 2, ..."""
    shown = session.shown() if session.page == "results" else ()
    return {asin.lower(): f"item {place}" for place, asin in enumerate(shown, 1)}


def _brief(session: Session, shown: list[Node]) -> str:
    """Return the instruction on the first page, and no button; of a product with chosen options these alone."""
    if session.page == "index":
        return session.goal.instruction
    if session.page == "done":
        return f"{_THANKS[-1]}: {session.score:.2f}"
    if session.page == "item" and session.options:
        return f"You have clicked {', '.join(value for _, value in session.options)}"
    body = [node for node in shown[_HEADER:] if node.kind != "button"]
    if session.page == "item":
        groups: dict[str, list[str]] = {}
        for node in body:
            if node.kind == "option":
                groups.setdefault(node.name, []).append(node.text)
        price = next(node.text for node in body if node.text.startswith("Price: "))
        return "\n".join([*(f"{name}: {', '.join(values)}" for name, values in groups.items()), price])
    if session.page != "results":
        return "\n".join(" ".join(node.text.split()) for node in body) or session.page
    names = item_names(session)
    words = [f"\n{names[node.text.lower()]}" if node.kind == "link" else node.text for node in body[bool(names) :]]
    return "\n".join(" ".join(line.split()) for line in " ".join(words).strip().split("\n"))


def _rich(session: Session, shown: list[Node]) -> str:
    address = f"{'+'.join(session.keywords)}/{session.number}/{json.dumps(dict(session.options))}"
    lines, clicked = [], []
    for node in shown:
        if node.kind == "text":
            lines.append(node.text)
        elif node.kind == "button":
            lines.append(f"[button] {node.text} [button_]")
        elif node.kind == "link":
            mark = "clicked button" if node.text in session.visited else "button"
            lines.append(f"\n[{mark}] {node.text} [{mark}_]")
        elif f'"{node.text}"' in address:
            lines.append(f"  [clicked button] {node.text} [clicked button_]")
            clicked.append(f"You have clicked {node.text}.")
        elif node.text:
            lines.append(f"  [button] {node.text} [button_]")
    return "".join(f"{line}\n" for line in [*reversed(clicked), *lines])
