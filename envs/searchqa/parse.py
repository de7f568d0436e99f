"""Finds the search or the answer in what the model wrote, in the windowed protocol and in the growing-context one."""

from __future__ import annotations

import re

from sharpo.env import ParsedAction

_SEARCH = re.compile(r"<search>(.*?)</search>", re.DOTALL | re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_OPEN_SEARCH = re.compile(r"<search>", re.IGNORECASE)
_OPEN_ANSWER = re.compile(r"<answer>", re.IGNORECASE)
_FIRST = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)


def windowed(text: str) -> ParsedAction:
    """Read a turn as the windowed protocol does: always an action, be it an empty one, and a verdict on the form.

    What follows the first ``</search>`` (without one, the first ``</answer>``) is left out; of the rest the first
    search counts, without one the first answer. Not valid: neither, both kinds of opening tag anywhere in the text,
    or one kind twice. Thoughts are not asked for.

    Example:
        >>> windowed("I look it up. <search> red fox </search> and then").action
        '<search>red fox</search>'
        >>> windowed("It is red.")
        ParsedAction(action='', chars={}, valid=False, penalty=0.0)
    """
    stop = len(text)
    for tag in ("</search>", "</answer>"):
        if tag in text:
            stop = text.index(tag) + len(tag)
            break
    kind, found = "search", _SEARCH.search(text, 0, stop)
    if found is None:
        kind, found = "answer", _ANSWER.search(text, 0, stop)
    if found is None:
        return ParsedAction("", {}, valid=False)
    searches, answers = len(_OPEN_SEARCH.findall(text)), len(_OPEN_ANSWER.findall(text))
    valid = searches + answers == 1
    return _parsed(kind, found, 1, text, valid)


def growing(text: str) -> ParsedAction | None:
    """Read a turn as the growing-context protocol does: the first search or answer in small letters, else None.

    Example:
        >>> growing("<answer> Paris </answer>").action
        '<answer>Paris</answer>'
        >>> growing("<SEARCH>x</SEARCH>") is None
        True
    """
    found = _FIRST.search(text)
    return None if found is None else _parsed(found.group(1), found, 2, text, valid=True)


def _parsed(kind: str, found: re.Match[str], group: int, text: str, valid: bool) -> ParsedAction:
    inner = found.group(group)
    words = inner.strip()
    start = found.start(group) + len(inner) - len(inner.lstrip())
    chars = {"action": (start, start + len(words)) if words else found.span(), "action_with_tags": found.span()}
    think = _THINK.search(text, 0, found.start())
    if think is not None:
        chars["think"] = think.span(1)
    return ParsedAction(f"<{kind}>{words}</{kind}>", chars, valid=valid)


def query_of(action: str) -> str | None:
    """Return what an action searches for; None when it is no search.

    Example:
        >>> query_of("<search>red fox</search>"), query_of("<answer>red</answer>")
        ('red fox', None)
    """
    found = _SEARCH.search(action)
    return None if found is None else found.group(1).strip()


def is_answer(action: str) -> bool:
    """Return True for an action that holds an answer's tags: it ends the episode."""
    return "<answer>" in action and "</answer>" in action
