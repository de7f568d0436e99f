"""The store's rules: what an action does to a session; the original's quirks by default."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from sharpo.envs.webshop.goals import Goal
from sharpo.envs.webshop.pages import BACK, BUY, NEXT, PAGE_SIZE, PREVIOUS, SUB_PAGES, Node, Session, clickables, nodes
from sharpo.envs.webshop.products import Product
from sharpo.envs.webshop.reward import OptionRule, judge

MOST_RESULTS = 50
_ACTION = re.compile(r"(.+)\[(.+)\]")


class Search(Protocol):
    """A search engine over the catalogue's documents."""

    def top(self, query: str, k: int) -> Sequence[tuple[str, float]]:
        """Return the k best documents' names and scores, best first."""
        ...


def parse_action(action: str) -> tuple[str, str | None]:
    """Return an action's name and its lower-cased argument, None when it has none.

    Example:
        >>> parse_action("click[Buy Now]"), parse_action("think"), parse_action("search[a [b] c]")
        (('click', 'buy now'), ('think', None), ('search[a ', 'b] c'))
    """
    found = _ACTION.match(action)
    if found is None:
        return action, None
    name, argument = found.groups()
    return name, argument.lower()


class Store:
    """A catalogue with its rules; holds no session, so one serves every shopper.

    Args:
        product: products by asin.
        search: the engine over them.
        show_attributes: whether an item's page leads to its attributes.
        search_only_when_bar: refuse ``search[...]`` where no search bar is shown; the original allows it everywhere.
        option_rule: how chosen options are compared with the goal's.
        page_size: products on a page of results.
    """

    def __init__(
        self,
        product: Mapping[str, Product],
        search: Search,
        show_attributes: bool = False,
        search_only_when_bar: bool = False,
        option_rule: OptionRule = "legacy",
        page_size: int = PAGE_SIZE,
    ) -> None:
        self.product = product
        self.search = search
        self.show_attributes = show_attributes
        self.search_only_when_bar = search_only_when_bar
        self.option_rule: OptionRule = option_rule
        self.page_size = page_size

    def begin(self, goal: Goal) -> Session:
        """Return a shopper at the door."""
        return Session(goal, page_size=self.page_size)

    def nodes(self, session: Session) -> list[Node]:
        """Return what a session's page shows."""
        return nodes(session, self.product, self.show_attributes)

    def results(self, query: str) -> tuple[str, ...]:
        """Return the asins that a search finds, at most 50, best first."""
        return tuple(asin for asin, _ in self.search.top(query, MOST_RESULTS) if asin in self.product)

    def act(self, session: Session, action: str) -> Session:
        """Return the session after an action; the same object when the action does nothing.

        Args:
            session: before it.
            action: ``search[words]`` or ``click[something shown]``.
        """
        name, argument = parse_action(action)
        if argument is None:
            return session
        if name == "search":
            if self.search_only_when_bar and session.page != "index":
                return session
            found = self.results(argument)
            keywords = tuple(argument.split(" "))
            return replace(session, page="results", keywords=keywords, number=1, results=found, asin=None, options=())
        if name != "click" or argument == "search":
            return session
        owner = clickables(self.nodes(session)).get(argument)
        return session if owner is None else self._click(session, argument, owner)

    def _click(self, session: Session, text: str, owner: Node) -> Session:
        if text == BUY.lower():
            return replace(session, page="done", score=self.score(session))
        if text == BACK.lower():
            return self.begin(session.goal)
        if session.page == "results" and text in (NEXT.lower(), PREVIOUS.lower()):
            number = session.number + (1 if text == NEXT.lower() else -1)
            return replace(session, number=number, asin=None, options=())
        if text == PREVIOUS.lower():
            if session.page == "item":
                return replace(session, page="results", asin=None, options=())
            return replace(session, page="item")
        if text in SUB_PAGES:
            return replace(session, page=SUB_PAGES[text])
        if owner.kind == "link":
            return replace(session, page="item", asin=owner.text, visited=session.visited | {owner.text})
        return replace(session, page="item", options=tuple({**dict(session.options), owner.name: owner.text}.items()))

    def score(self, session: Session) -> float:
        """Return what buying the product that is shown, with the options chosen, is worth."""
        assert session.asin is not None
        product = self.product[session.asin]
        return judge(
            product, dict(session.options), session.goal, self.goal_nouns(session.goal), self.option_rule
        ).score

    def goal_nouns(self, goal: Goal) -> tuple[str, ...]:
        """Return the nouns of a goal's title."""
        return self.product[goal.asin].nouns
