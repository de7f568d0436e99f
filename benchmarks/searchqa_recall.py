"""Recall of a SearchQA retriever: how many questions have an answer in the first 3 and 10 passages, counted four ways.

python benchmarks/searchqa_recall.py --corpus FILE --questions FILE [--titles 2] [--dense MODEL_FOLDER --index FOLDER]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sharpo.envs.searchqa.questions import Question, load
from sharpo.envs.searchqa.retriever import Bm25Retriever, Passage, Retriever
from sharpo.envs.searchqa.reward import contains, normalize

K = (3, 10)
Holds = Callable[[Passage, Sequence[str]], bool]


def _whole_words(passage: Passage, answers: Sequence[str]) -> bool:
    words = f" {normalize(passage.contents)} "
    return any(f" {normalize(answer)} " in words for answer in answers)


DEFINITIONS: dict[str, Holds] = {
    "any answer, anywhere in the passage": lambda passage, answers: contains(passage.contents, answers),
    "any answer, in the text without its title": lambda passage, answers: contains(passage.text, answers),
    "the first answer alone": lambda passage, answers: contains(passage.contents, answers[:1]),
    "any answer, as whole words": _whole_words,
}


def counts(
    questions: Iterable[Question], found: Iterable[list[Passage]], holds: Holds
) -> dict[str, tuple[int, int, int]]:
    """Return by source: questions, and those with an answer in the first 3 and in the first 10 passages."""
    made: dict[str, tuple[int, int, int]] = {}
    for question, passages in zip(questions, found, strict=True):
        number, *hits = made.get(question.source, (0, 0, 0))
        new = [any(holds(passage, question.answers) for passage in passages[:k]) for k in K]
        made[question.source] = (number + 1, hits[0] + new[0], hits[1] + new[1])
    return made


def with_titles(corpus: Path, times: int, target: Path) -> Path:
    """Write a corpus whose passages hold their title so many times, and return its path."""
    with corpus.open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as file:
        for line in lines:
            row = json.loads(line)
            title = row["contents"].partition("\n")[0]
            row["contents"] = "\n".join([row["contents"], *[title] * (times - 1)])
            file.write(json.dumps(row) + "\n")
    return target


def retriever(given: argparse.Namespace, corpus: Path, folder: Path) -> Retriever:
    """Return the retriever that is measured."""
    if given.dense is None:
        return Bm25Retriever(str(corpus), str(folder / "index"))
    from sharpo.envs.searchqa.dense import DenseRetriever

    return DenseRetriever(given.dense, str(corpus), given.index, query=given.query, passage=given.passage)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--questions", nargs="+", required=True, help="files; SOURCE=FILE where it names no source")
    parser.add_argument("--titles", type=int, default=1, help="how many times a passage's title is indexed")
    parser.add_argument("--dense", default=None, help="folder of an encoder; without it BM25")
    parser.add_argument("--index", default=None, help="folder of the dense index")
    parser.add_argument("--query", default="query: ", help="what stands before a query")
    parser.add_argument("--passage", default="passage: ", help="what stands before a passage")
    given = parser.parse_args()
    questions = load(tuple(given.questions))
    with tempfile.TemporaryDirectory(prefix="searchqa_recall_") as name:
        folder = Path(name)
        corpus = given.corpus
        if given.titles > 1:
            corpus = with_titles(corpus, given.titles, folder / "corpus.jsonl")
        engine = retriever(given, corpus, folder)
        engine.search(["ready"], 1)
        clock = time.process_time()
        found = engine.search([question.text for question in questions], max(K))
        spent = time.process_time() - clock
    print(f"{1e3 * spent / len(questions):.2f} ms of CPU time a question")
    for name, holds in DEFINITIONS.items():
        for source, (number, three, ten) in counts(questions, found, holds).items():
            shares = f"{three / number:.3f} {ten / number:.3f}"
            print(f"{name} | {source} | {number} questions | first {K[0]}: {three}, first {K[1]}: {ten} | {shares}")


if __name__ == "__main__":
    main()
