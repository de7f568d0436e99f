"""An episode as what its web page needs: the page's nodes in groups, the purchase's parts, the step as JSON."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from sharpo.envs.webshop.goals import NO_BOUND
from sharpo.envs.webshop.pages import Node
from sharpo.envs.webshop.reward import Verdict, attributes_met, judge, options_met
from sharpo.envs.webshop.serve_play import Play, settings

FOLDER = Path(__file__).parent / "html"
STYLE = (FOLDER / "style.css").read_text(encoding="utf-8")
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""What a browser may load for a page: this one style sheet, nothing else, no script at all."""
_INDEX_HEAD, _HEAD, _ITEM_HEAD = 3, 2, 4


@dataclass(frozen=True, slots=True)
class Asked:
    """One thing the goal asks for, and whether the purchase has it."""

    what: str
    met: bool


@dataclass(frozen=True, slots=True)
class Bought:
    """A purchase and its parts.

    Args:
        title: of the product that was bought.
        asin: of it.
        chosen: the options it was bought with.
        attributes: that the goal asks for.
        options: that the goal asks for.
        price: within the bound or not, with both numbers.
        verdict: the score and the comparisons behind it.
    """

    title: str
    asin: str
    chosen: dict[str, str]
    attributes: tuple[Asked, ...]
    options: tuple[Asked, ...]
    price: Asked
    verdict: Verdict

    @property
    def asked(self) -> tuple[Asked, ...]:
        """Everything that counts alike."""
        return (*self.attributes, *self.options, self.price)


def bought(play: Play) -> Bought | None:
    """Return the purchase that ended an episode, None without one."""
    session, store = play.session, play.env.store
    if session.page != "done" or session.asin is None:
        return None
    product, goal, chosen = store.product[session.asin], session.goal, dict(session.options)
    rule = store.option_rule
    verdict = judge(product, chosen, goal, store.goal_nouns(goal), rule)
    bound = "no bound" if goal.price_upper == NO_BOUND else f"at most ${goal.price_upper:.2f}"
    return Bought(
        title=product.title,
        asin=product.asin,
        chosen=chosen,
        attributes=tuple(Asked(want, bool(attributes_met(product, [want]))) for want in goal.attributes),
        options=tuple(
            Asked(": ".join([want] if isinstance(want, str) else want), bool(options_met(chosen, [want], rule)))
            for want in goal.options
        ),
        price=Asked(f"${product.price:.2f}, {bound}", verdict.price),
        verdict=verdict,
    )  # fmt: skip


def results(nodes: Sequence[Node]) -> dict[str, Any]:
    """Return a page of results: the line above them, the ways on, and each product's nodes."""
    head = list(takewhile(lambda node: node.kind != "link", nodes[_HEAD:]))
    products: list[list[Node]] = []
    for node in nodes[_HEAD + len(head) :]:
        if node.kind == "link":
            products.append([])
        products[-1].append(node)
    return {"head": head, "products": products}


def item(nodes: Sequence[Node], titled: bool) -> dict[str, Any]:
    """Return an item's page: ways back, options in groups, the product's lines, the buttons below them.

    Args:
        nodes: of the page.
        titled: whether the product's title is shown.
    """
    body = list(nodes[_ITEM_HEAD:])
    buttons: list[Node] = []
    while body and body[-1].kind == "button":
        buttons.insert(0, body.pop())
    lines = [body.pop() for _ in range(3 if titled else 2)][::-1]
    groups: list[list[Node]] = []
    for node in body:
        if node.kind == "text" or not groups:
            groups.append([])
        groups[-1].append(node)
    return {"head": nodes[_HEAD:_ITEM_HEAD], "groups": groups, "lines": lines, "buttons": buttons}


def view(play: Play) -> dict[str, Any]:
    """Return what the template of an episode's page needs."""
    session, nodes = play.session, play.nodes
    page = "end" if play.ended else session.page
    made: dict[str, Any] = {"play": play, "page": page, "session": session, "nodes": nodes, **settings(play)}
    if page == "end":
        made["bought"] = bought(play)
    elif page == "results":
        made |= results(nodes)
    elif page == "item":
        assert session.asin is not None
        made |= item(nodes, bool(play.env.store.product[session.asin].title.strip()))
        made["chosen"] = dict(session.options)
    elif page != "index":
        assert session.asin is not None
        made |= {"head": nodes[_HEAD:_ITEM_HEAD], "lines": nodes[_ITEM_HEAD:]}
        made["title"] = play.env.store.product[session.asin].title
    return made


def step(play: Play) -> dict[str, Any]:
    """Return an episode's last step as a JSON value."""
    outcome, found = play.env.outcome(), bought(play)
    return {
        **settings(play),
        "instruction": play.task.instruction,
        "page": play.session.page,
        "observation": play.text,
        "admissible": list(play.admissible),
        "actions": play.actions,
        "changed": play.changed,
        "return": play.earned,
        "ended": play.ended or None,
        "success": outcome.success,
        "score": outcome.score,
        "bought": None if found is None else asdict(found),
    }


def action_of(node: Node) -> str:
    """Return the action that pressing a button, link or option means."""
    return f"click[{node.text if node.kind == 'option' else node.text.lower()}]"


def verbatim(text: Any) -> Any:
    """Return what a template puts into a page: a text escaped, and so that a browser keeps its carriage returns.

    Example:
        >>> str(verbatim("<b>" + chr(13)))
        '&lt;b&gt;&#13;'
    """
    if isinstance(text, Markup) or not isinstance(text, str):
        return text
    return Markup(str(Markup.escape(text)).replace("\r", "&#13;"))  # noqa: S704 - it was escaped


@functools.cache
def templates() -> Environment:
    """Return the pages' templates: everything put into them is escaped, nothing may be missing."""
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=verbatim,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["style"] = Markup(STYLE)  # noqa: S704 - our own file
    made.filters["action_of"] = action_of
    return made


def html(name: str, **given: Any) -> str:
    """Return a page.

    Args:
        name: of the template, without its ending.
        given: what it shows.
    """
    return templates().get_template(f"{name}.html").render(given)
