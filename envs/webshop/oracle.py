"""Who knows what to buy: the exact purchase of the goal's own product, and a rule that buys the first thing found."""

from __future__ import annotations

from sharpo.envs.webshop.colours import by_substring
from sharpo.envs.webshop.fuzzy import same
from sharpo.envs.webshop.goals import Goal
from sharpo.envs.webshop.pages import BACK, BUY, NEXT, PAGE_SIZE, PREVIOUS, SUB_PAGES, Session, clickables
from sharpo.envs.webshop.products import Product
from sharpo.envs.webshop.store import Store

_RESERVED = {"search", BACK.lower(), PREVIOUS.lower(), BUY.lower(), *SUB_PAGES}


def exact_options(product: Product, goal: Goal) -> dict[str, str]:
    """Return the options of a goal's own product that the goal asks for.

    A synthetic goal names them; a human goal says values alone, which are looked for among the product's.

    Args:
        product: the goal's own.
        goal: what was asked for.
    """
    chosen: dict[str, str] = {}
    for want in goal.options:
        if not isinstance(want, str):
            chosen[want[0]] = want[1]
            continue
        free = [(name, value) for name, values in product.options for value in values if name not in chosen]
        exact = [pair for pair in free if pair[1] == want]
        close = [pair for pair in free if same(by_substring(pair[1]), by_substring(want))]
        chosen.update((exact or close)[:1])
    return chosen


def query_of(text: str) -> str:
    """Return a text as the words of a search: no brackets or line breaks, which would end the action."""
    return " ".join(text.lower().replace("[", " ").replace("]", " ").split())


def best_query(store: Store, goal: Goal) -> str | None:
    """Return the words that bring a goal's product to the earliest page of ten results; None if none do.

    Tried in this order: the wanted attributes and the kind of product, the whole instruction, the title.

    Args:
        store: searches.
        goal: what was asked for.
    """
    places = []
    wanted = f"{', '.join(goal.attributes)} {goal.query}"
    for number, text in enumerate((wanted, goal.instruction, goal.name)):
        query = query_of(text)
        if query:
            found = store.results(query)
            if goal.asin in found:
                places.append((found.index(goal.asin) // PAGE_SIZE, number, query))
    return min(places)[2] if places else None


def exact_purchase(store: Store, session: Session, query: str | None) -> str | None:
    """Return the next action towards buying a goal's own product with the options asked for.

    Args:
        store: the shop.
        session: where the shopper is.
        query: from :func:`best_query`.
    """
    goal = session.goal
    if session.page == "done":
        return None
    if session.page == "results" and goal.asin in session.results:
        page = session.results.index(goal.asin) // session.page_size + 1
        if page == session.number:
            return f"click[{goal.asin.lower()}]"
        return f"click[{(NEXT if page > session.number else PREVIOUS).lower()}]"
    if session.asin == goal.asin:
        if session.page != "item":
            return f"click[{PREVIOUS.lower()}]"
        return f"click[{_next_option(store, session) or BUY.lower()}]"
    if session.page == "index":
        return None if query is None else f"search[{query}]"
    return f"click[{BACK.lower()}]"


def _next_option(store: Store, session: Session) -> str | None:
    """Return the next value to choose; one that cannot be clicked for its own option is left out."""
    wanted = exact_options(store.product[session.goal.asin], session.goal)
    chosen, owners = dict(session.options), clickables(store.nodes(session))
    for name, value in wanted.items():
        owner = owners.get(value)
        if chosen.get(name) != value and value not in _RESERVED and owner is not None and owner.name == name:
            return value
    return None


def first_hit(session: Session) -> str | None:
    """Return the next action of a rule: search for the instruction as it stands, open the first product, buy it.

    Args:
        session: where the shopper is.
    """
    if session.page == "done":
        return None
    if session.page == "index":
        return f"search[{query_of(session.goal.instruction)}]"
    if session.page == "results":
        shown = session.shown()
        return f"click[{shown[0].lower()}]" if shown else f"click[{BACK.lower()}]"
    return f"click[{(BUY if session.page == 'item' else PREVIOUS).lower()}]"
