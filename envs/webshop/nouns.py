"""The nouns of titles: tagged by a spaCy model once, when the catalogue is built, or taken to be every word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from sharpo.errors import ConfigError

WORDS = "words"
"""Name of the heuristic: every word is a noun."""
_WORD = re.compile(r"\w+")
_KEPT = ("NOUN", "PROPN")


@lru_cache(maxsize=2)
def _load(model: str) -> Any:
    try:
        spacy: Any = import_module("spacy")
        return spacy.load(model, disable=["parser", "ner", "lemmatizer"])
    except (ImportError, OSError) as error:
        raise ConfigError(
            f"nouns={model}: {str(error).splitlines()[0]}; install a tagger (pip install 'sharpo[webshop]'), or take "
            "every word for a noun with --nouns words (then about one purchase in eight scores otherwise)"
        ) from error


def tag(titles: Sequence[str], model: str) -> tuple[list[tuple[str, ...]], str]:
    """Return each title's nouns in order, and what found them.

    Args:
        titles: as shown.
        model: an installed spaCy model, or ``words`` for the heuristic.

    Raises:
        ConfigError: spaCy or the model is not installed.
    """
    if model == WORDS:
        return [tuple(_WORD.findall(title.lower())) for title in titles], WORDS
    reader = _load(model)
    return list(_nouns(reader, titles)), f"{reader.meta['lang']}_{reader.meta['name']} {reader.meta['version']}"


def write_part(path: Path, made_of: tuple[Sequence[str], str]) -> None:
    """Write the nouns of titles, with what found them, as JSON; the file appears when it is whole.

    Args:
        path: of the file.
        made_of: titles, and the model.
    """
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(tag(*made_of)), encoding="utf-8")
    temporary.replace(path)


def read_part(path: Path) -> tuple[list[tuple[str, ...]], str]:
    """Return what :func:`write_part` wrote."""
    words, name = json.loads(path.read_text(encoding="utf-8"))
    return [tuple(own) for own in words], name


def _nouns(reader: Any, titles: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for read in reader.pipe(titles, batch_size=256):
        yield tuple(token.text.lower() for token in read if token.pos_ in _KEPT)
