"""The two protocols of search-tool question answering: what a turn means and how passages are shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from sharpo.envs.searchqa import parse
from sharpo.envs.searchqa.retriever import Passage

from sharpo.env import ParsedAction

Protocol = Literal["windowed", "growing"]

NOTHING_FOUND = "No search results found."


def read(protocol: Protocol, text: str) -> ParsedAction | None:
    """Find the action in the model's text as the protocol does."""
    return parse.windowed(text) if protocol == "windowed" else parse.growing(text)


def shown(protocol: Protocol, passages: Sequence[Passage]) -> str:
    r"""Return what a search answers.

    Windowed: the numbered passages as one JSON string; growing: title and text of each.

    Example:
        >>> found = [Passage("7", '"Fox"\nIt is red.', 2.0)]
        >>> shown("windowed", found)
        '<information>{"result": "Doc 1: \\"Fox\\"\\nIt is red.\\n"}</information>'
        >>> shown("growing", found)
        '\n\n<information>Doc 1(Title: "Fox") It is red.</information>\n\n'
    """
    if protocol == "windowed":
        lines = [f"Doc {place}: {passage.contents.strip()}\n" for place, passage in enumerate(passages, 1)]
        return information("".join(lines) or NOTHING_FOUND)
    lines = [f"Doc {place}(Title: {passage.title}) {passage.text}\n" for place, passage in enumerate(passages, 1)]
    return f"\n\n<information>{''.join(lines).strip()}</information>\n\n"


def information(text: str) -> str:
    """Return a text as the windowed protocol's tool answers it."""
    return f"<information>{json.dumps({'result': text})}</information>"


def failed(protocol: Protocol, message: str) -> str:
    """Return what a search answers that could not be done (with ``search_errors: show``)."""
    text = f"Search error: {message}"
    return information(text) if protocol == "windowed" else f"\n\n<information>{text}</information>\n\n"
