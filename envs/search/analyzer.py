"""Lucene's English analyzer: tokens, possessives off, lower case, stop words out, Porter stems."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sharpo.envs.search.tokens import tokens

from sharpo.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = 1
"""Changes when the terms of any text change: an index of another version is refused."""
_STOP = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with"
)
STOP_WORDS = frozenset(_STOP.split())
_KEPT = 1 << 18


def terms(text: str) -> list[str]:
    """Return the index terms of a text, repeats included.

    Example:
        >>> terms("The dogs' running, John's 16 abilities")
        ['dog', 'run', 'john', '16', 'abil']
    """
    return [term for term in map(_term, tokens(text)) if term is not None]


@lru_cache(_KEPT)
def _term(token: str) -> str | None:
    if len(token) >= 2 and token[-1] in "sS" and token[-2] in "'\u2019\uff07":
        token = token[:-2]
    token = token.lower() if token.isascii() else "".join(map(_lower, token))
    if token in STOP_WORDS:
        return None
    return token if len(token) <= 2 else _stemmer()(token)


def _lower(letter: str) -> str:
    """Return the one letter that Java gives: dotted I becomes i, and sigma does not look at its neighbours."""
    return "i" if letter == "\u0130" else letter.lower()


@lru_cache(1)
def _stemmer() -> Callable[[str], str]:
    """Return Porter's own revision of his stemmer (``bli`` becomes ``ble``, ``logi`` becomes ``log``)."""
    try:
        from nltk.stem.porter import PorterStemmer
    except ImportError as error:
        raise ConfigError(f"search needs nltk for its stems ({error}): pip install 'sharpo[search]'") from error
    stemmer = PorterStemmer(PorterStemmer.MARTIN_EXTENSIONS)
    return lambda word: stemmer.stem(word, to_lowercase=False)
