"""When two attribute or option texts count as the same: token sets, compared by difflib."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

THRESHOLD = 85
"""Two texts agree when their token set ratio is above it."""
_NO_WORD = re.compile(r"\W")
_LATIN_1 = dict.fromkeys(range(128, 256))
"""Letters that are dropped; those beyond them stay, as in the original's library."""


@lru_cache(maxsize=65536)
def _tokens(text: str) -> frozenset[str]:
    return frozenset(_NO_WORD.sub(" ", text.translate(_LATIN_1)).lower().split())


def _ratio(one: str, two: str) -> int:
    if one == two:
        return 100
    return round(100 * SequenceMatcher(None, one, two).ratio()) if one and two else 0


@lru_cache(maxsize=65536)
def token_set_ratio(one: str, two: str) -> int:
    """Return how far two texts share their words, 0 to 100; 100 when one's words contain the other's.

    With c the common words and a, b each side's rest: max of ratio(c, c+a), ratio(c, c+b), ratio(c+a, c+b), where
    ratio = 2·matches / letters (Ratcliff and Obershelp).

    Example:
        >>> token_set_ratio("x-large", "('size', 'x-large')"), token_set_ratio("4 pack", "6 pack")
        (100, 83)
    """
    left, right = _tokens(one), _tokens(two)
    if not left or not right:
        return 0
    common = " ".join(sorted(left & right))
    first = f"{common} {' '.join(sorted(left - right))}".strip()
    second = f"{common} {' '.join(sorted(right - left))}".strip()
    return max(_ratio(common, first), _ratio(common, second), _ratio(first, second))


def same(one: str, two: str) -> bool:
    """Return True when two texts agree."""
    return token_set_ratio(one, two) > THRESHOLD
