"""Questions with their answers and their data source, from JSONL or Parquet files or the built-in sample."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from sharpo.errors import ConfigError, DataError
from sharpo.seeding import derive

SOURCES = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
HELD_OUT = 8
"""One question in so many is kept for validation when there is no file for it."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Args:
        id: unique within its file and source.
        source: the data set it comes from; the task's family.
        text: the question, with its question mark.
        answers: any of them counts.
    """

    id: str
    source: str
    text: str
    answers: tuple[str, ...]


def sample() -> Path:
    """Return the folder of the built-in sample: two dozen passages and questions about made-up places and people."""
    return Path(str(resources.files("sharpo.envs") / "searchqa" / "sample"))


@lru_cache(8)
def load(files: tuple[str, ...]) -> tuple[Question, ...]:
    """Read questions.

    A row holds ``question``, its answers in ``golden_answers``, ``answer`` or ``reward_model.ground_truth.target``, and
    its source in ``data_source`` unless the file is given as ``source=path``. Question and answers may stand in
    ``env_kwargs``, where the benchmark family's preparation puts them.

    Args:
        files: paths of ``.jsonl`` or ``.parquet`` files, each maybe with a source.

    Raises:
        DataError: a file is absent, a row lacks something, a source is unknown, or two questions have the same id.
    """
    found: dict[tuple[str, str], Question] = {}
    for given in files:
        source, path = _source_and_path(given)
        for number, row in enumerate(_rows(path)):
            question = _question(row, source, number, path)
            if found.setdefault((question.source, question.id), question) is not question:
                raise DataError(f"{path}: two questions of {question.source} have the id {question.id!r}")
    if not found:
        raise DataError(f"no questions in {', '.join(files)}")
    return tuple(found.values())


def held_out(question: Question) -> bool:
    """Return True for the questions that are kept for validation when only training files are given."""
    return derive(0, "searchqa", "held_out", question.source, question.id) % HELD_OUT == 0


def as_files(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return files as a tuple."""
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def _source_and_path(given: str) -> tuple[str | None, Path]:
    source, sign, rest = given.partition("=")
    if not sign or "/" in source:
        return None, Path(given).expanduser()
    if source not in SOURCES:
        raise ConfigError(f"env: {given!r} names the source {source!r}; known: {', '.join(SOURCES)}")
    return source, Path(rest).expanduser()


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if not path.is_file():
        raise DataError(
            f"there is no file of questions {path}: set env.train and env.val to .jsonl or .parquet files with "
            "question, golden_answers and data_source, or leave both out for the built-in sample"
        )
    if path.suffix == ".parquet":
        try:
            from pyarrow import parquet  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ConfigError(f"{path}: reading Parquet needs pyarrow ({error}): pip install pyarrow") from error
        for batch in parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
        return
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise DataError(f"{path}, line {number}: not JSON ({error})") from None
                if not isinstance(row, dict):
                    raise DataError(f"{path}, line {number}: not an object")
                yield row


def _inner(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the mapping under a name; {} when there is none, so that what it should hold is told as missing."""
    found = row.get(name)
    return found if isinstance(found, Mapping) else {}


def _question(row: Mapping[str, Any], source: str | None, number: int, path: Path) -> Question:
    more = _inner(row, "env_kwargs")
    text = str(row.get("question") or more.get("question") or "").strip()
    truth = _inner(_inner(row, "reward_model"), "ground_truth") or _inner(more, "ground_truth")
    answers = next((row[key] for key in ("golden_answers", "answer") if row.get(key) is not None), truth.get("target"))
    source = source or row.get("data_source")
    missing = [name for name, value in (("question", text), ("golden_answers", answers)) if not value]
    if missing:
        raise DataError(f"{path}, question {number + 1}: it has no {missing[0]}")
    if source not in SOURCES:
        raise DataError(
            f"{path}, question {number + 1}: data_source is {source!r}; known: {', '.join(SOURCES)}. A file without "
            f"sources is given as SOURCE={path}"
        )
    assert answers is not None
    listed = (answers,) if isinstance(answers, str) else tuple(str(answer) for answer in answers)
    name = next((row[key] for key in ("id", "idx") if row.get(key) is not None), number)
    return Question(str(name), source, text if text.endswith("?") else f"{text}?", listed)
