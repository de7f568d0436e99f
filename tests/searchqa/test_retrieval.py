"""BM25 over a corpus file: found passages, its index, and the recall that was measured on the small real corpus."""

import pickle
import subprocess
import sys

import pytest
from sharpo.envs.searchqa.corpus import OFFSETS
from sharpo.envs.searchqa.questions import load
from sharpo.envs.searchqa.retriever import Bm25Retriever
from sharpo.envs.searchqa.reward import contains

from sharpo.errors import DataError

LINES = ['{"id": "7", "contents": "\\"Fox\\"\\nred"}\n', "\n", '{"id": "x", "contents": "\\"D\\u00f6g\\"\\nbrown"}\n']


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(LINES))
    return path


def test_passages_are_read_where_they_stand(corpus):
    found = Bm25Retriever(str(corpus)).search(["d\u00f6g", "red fox", "unknown"], 3)
    assert [[(passage.id, passage.title, passage.text) for passage in passages] for passages in found] == [
        [("x", '"D\u00f6g"', "brown")],
        [("7", '"Fox"', "red")],
        [],
    ]


def test_a_changed_corpus_is_indexed_again(corpus):
    one = Bm25Retriever(str(corpus))
    one.search(["fox"], 1)
    before = one.folder
    corpus.write_text('{"id": "1", "contents": "Owl\\nwhite"}\n')
    two = Bm25Retriever(str(corpus))
    assert two.folder != before
    assert two.search(["owl"], 1)[0][0].id == "1"


def test_an_index_in_a_folder_of_its_own_must_be_of_the_corpus(corpus, tmp_path):
    folder = tmp_path / "index"
    Bm25Retriever(str(corpus), str(folder)).search(["fox"], 1)
    assert (folder / OFFSETS).is_file()
    again = pickle.loads(pickle.dumps(Bm25Retriever(str(corpus), str(folder))))
    assert again.search(["fox"], 1)[0][0].id == "7"
    corpus.write_text("".join([*LINES, LINES[0].replace("7", "8")]))
    assert len(Bm25Retriever(str(corpus), str(folder)).search(["fox"], 3)[0]) == 2  # built again in its place


def test_a_missing_or_broken_corpus_is_one_message(tmp_path):
    with pytest.raises(DataError, match="there is no corpus"):
        Bm25Retriever(str(tmp_path / "absent.jsonl")).search(["a"], 1)
    for text in ('{"id": 1}', "{", "[1]"):
        (tmp_path / "broken.jsonl").write_text(text)
        with pytest.raises(DataError, match="line 1: no passage with id and contents"):
            Bm25Retriever(str(tmp_path / "broken.jsonl")).search(["a"], 1)


def test_a_large_corpus_asks_for_its_command(corpus, monkeypatch, tmp_path):
    monkeypatch.setattr("sharpo.envs.searchqa.retriever.SMALL_BYTES", 10)
    retriever = Bm25Retriever(str(corpus), str(tmp_path / "index"))
    with pytest.raises(DataError, match=r"has no index .*python -m sharpo.envs.searchqa.index --corpus"):
        retriever.search(["fox"], 1)
    done = subprocess.run(
        [sys.executable, "-m", "sharpo.envs.searchqa.index", "--corpus", str(corpus), "--index",
         str(tmp_path / "index")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 passages" in done.stdout
    assert retriever.search(["fox"], 1)[0][0].id == "7"


MEASURED = {"hotpotqa": (250, 155, 203), "2wikimultihopqa": (140, 81, 97), "musique": (172, 44, 64)}
"""Questions, and those with any of their answers, normalised, in the first 3 and in the first 10 passages."""
FIRST_ANSWER = {"hotpotqa": (250, 155, 203), "2wikimultihopqa": (140, 81, 97), "musique": (172, 38, 50)}
"""The same when only the first answer counts: MuSiQue alone lists several (its aliases)."""


def test_the_recall_on_the_small_real_corpus_is_what_was_measured(shared_data, tmp_path):
    folder = shared_data / "searchqa"
    retriever = Bm25Retriever(str(folder / "mini_corpus.jsonl"), str(tmp_path / "index"))
    questions = load((str(folder / "mini_questions.jsonl"),))
    found = retriever.search([question.text for question in questions], 10)

    def counted(most_answers):
        made = {}
        for source in MEASURED:
            own = [(q, passages) for q, passages in zip(questions, found, strict=True) if q.source == source]
            hits = [
                sum(any(contains(p.contents, q.answers[:most_answers]) for p in passages[:k]) for q, passages in own)
                for k in (3, 10)
            ]
            made[source] = (len(own), *hits)
        return made

    assert counted(None) == MEASURED
    assert counted(1) == FIRST_ANSWER
