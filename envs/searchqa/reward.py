"""Exact match of answers, as the question-answering benchmarks count it."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def normalize(text: str) -> str:
    """Return a text in lower case, without ASCII punctuation, without articles, with single spaces.

    Source: SQuAD (Rajpurkar et al. 2016), its evaluation.

    Example:
        >>> normalize("The  Beatles!"), normalize("U.S."), normalize("New-York")
        ('beatles', 'us', 'newyork')
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answers: Iterable[str]) -> bool:
    """Return True when the prediction equals any of the answers, all normalised.

    Example:
        >>> exact_match("Madison", ["James Madison"]), exact_match("1,000", ["1000"])
        (False, True)
    """
    wanted = normalize(prediction)
    return any(normalize(answer) == wanted for answer in answers)


def contains(text: str, answers: Iterable[str]) -> bool:
    """Return True when any of the answers occurs in the text, all normalised.

    Example:
        >>> contains("It was written by the Beatles.", ["The Beatles"])
        True
    """
    whole = normalize(text)
    return any(normalize(answer) in whole for answer in answers)


def last_answer(text: str, least: int = 1) -> str | None:
    """Return the content of the last ``<answer>`` element; None when there are fewer than ``least``.

    Args:
        text: what was said; where the prompt is part of it and shows an example, that one counts too: ``least`` = 2.
        least: how many there must be.

    Example:
        >>> last_answer("<answer>Paris</answer> no: <answer> Rome </answer>")
        'Rome'
    """
    found = _ANSWER.findall(text)
    return found[-1].strip() if len(found) >= least else None
