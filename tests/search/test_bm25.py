"""Rankings are Lucene's; an index is built in parts, mapped by many, and refused when it is not what it should be."""

import json
import math
import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from sharpo.envs.search import build as building
from sharpo.envs.search.analyzer import terms
from sharpo.envs.search.bm25 import Bm25
from sharpo.envs.search.norms import decoded_length

from sharpo.errors import ConfigError, DataError

DOCUMENTS = [
    ("b", "The red fox runs"),
    ("a", "a fox, a dog"),
    ("c", "rain and rain"),
    ("empty", "the"),
    ("d", "fox dog"),
]


@pytest.fixture(scope="module")
def whole(catalogue, tmp_path_factory):
    """The 1,000 products, built at one go."""
    return Bm25.build(catalogue, tmp_path_factory.mktemp("whole") / "index")


def test_every_recorded_ranking_is_lucenes(shared_data, catalogue, whole):
    recorded = json.loads((shared_data / "webshop" / "search_fixtures_1k.json").read_text())
    assert len(recorded) == 300
    assert whole.documents == len(catalogue)
    for query, expected in recorded:
        found = whole.top(query, 50)
        assert [name for name, _ in found] == [name for name, _ in expected], query
        assert all(abs(mine - theirs) < 1e-4 for (_, mine), (_, theirs) in zip(found, expected, strict=True))


def _reference_scores(query, documents, k1=0.9, b=0.4):
    """BM25 in plain loops and double precision, with Lucene's document lengths."""
    counted = {name: Counter(terms(text)) for name, text in documents}
    lengths = {name: counts.total() for name, counts in counted.items()}
    filled = [name for name, length in lengths.items() if length]
    average = sum(lengths.values()) / len(filled)
    scores = {}
    for name, counts in counted.items():
        score = 0.0
        for term in terms(query):
            df = sum(term in other for other in counted.values())
            if counts[term]:
                idf = math.log(1 + (len(filled) - df + 0.5) / (df + 0.5))
                norm = k1 * (1 - b + b * decoded_length(lengths[name]) / average)
                score += idf * counts[term] / (counts[term] + norm)
        if score:
            scores[name] = score
    return scores


@pytest.mark.parametrize("query", ["fox", "foxes and dogs", "rain rain dog", "red red red fox", "unknown", "", "the a"])
def test_scores_are_the_formula(query, tmp_path):
    found = Bm25.build(DOCUMENTS, tmp_path / "index").top(query, 10)
    expected = _reference_scores(query, DOCUMENTS)
    assert dict(found) == pytest.approx(expected, abs=1e-6)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def test_ties_go_by_id_also_at_the_cut(tmp_path):
    texts = [(f"{number:03d}", "same words" if number % 2 else "other things") for number in range(99, -1, -1)]
    index = Bm25.build(texts, tmp_path / "index")
    assert [name for name, _ in index.top("words", 5)] == ["001", "003", "005", "007", "009"]
    assert len(index.top("words things", 1000)) == 100


@pytest.mark.parametrize(
    ("length", "kept"), [(0, 0), (23, 23), (39, 39), (40, 40), (41, 40), (237, 232), (2**31 - 1, 2013265944)]
)
def test_lengths_are_one_byte(length, kept):
    assert decoded_length(length) == kept


def test_parts_of_any_size_and_any_number_of_processes_give_the_same_index(catalogue, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "CHUNK", 300)
    seen = []
    parts = Bm25.build(iter(catalogue), tmp_path / "parts", workers=2, on_progress=seen.append)
    assert seen == [300, 600, 900, len(catalogue)]
    for name in ("documents", "impacts", "pointers", "ranks", "terms", "ids"):
        one, two = (np.load(index.folder / f"{name}.npy") for index in (whole, parts))
        assert (one == two).all(), name


def test_an_interrupted_build_goes_on_where_it_stopped(catalogue, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "CHUNK", 200)

    def breaking():
        yield from catalogue[:700]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Bm25.build(breaking(), tmp_path / "index", workers=1)
    with pytest.raises(DataError, match="unfinished: run its build again"):
        Bm25.load(tmp_path / "index")
    made = []
    real = building.write_part
    monkeypatch.setattr(building, "write_part", lambda path, texts: (made.append(len(texts)), real(path, texts)))
    index = Bm25.build(catalogue, tmp_path / "index", workers=1)
    assert made == [200, len(catalogue) - 800]  # three parts were there
    assert index.top("shirt", 3)
    assert not (tmp_path / "index" / "parts").exists()


def test_a_finished_index_is_kept_for_the_same_documents_and_replaced_for_others(tmp_path, monkeypatch):
    first = Bm25.build(DOCUMENTS, tmp_path / "index")
    with monkeypatch.context() as patch:
        patch.setattr(building, "merge", lambda *a: pytest.fail("built again"))
        assert Bm25.build(DOCUMENTS, tmp_path / "index").fingerprint == first.fingerprint
    other = Bm25.build([*DOCUMENTS, ("e", "owl")], tmp_path / "index")
    assert other.fingerprint != first.fingerprint
    assert [name for name, _ in other.top("owl", 3)] == ["e"]
    assert Bm25.build(DOCUMENTS, tmp_path / "index", k1=1.2).fingerprint != first.fingerprint


def test_what_is_no_index_is_refused_in_one_message(tmp_path):
    with pytest.raises(DataError, match=r"there is no search index in .*: build it with"):
        Bm25.load(tmp_path / "absent")
    (tmp_path / "index.json").write_text('{"format": "lucene"}')
    with pytest.raises(DataError, match="another kind of index"):
        Bm25.load(tmp_path)
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(DataError, match="is not the description"):
        Bm25.load(tmp_path)
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("precious")
    with pytest.raises(DataError, match="not empty"):
        Bm25.build(DOCUMENTS, full)
    with pytest.raises(DataError, match="there are no documents"):
        Bm25.build([], tmp_path / "none")
    with pytest.raises(DataError, match="not one of 1 documents holds a word"):
        Bm25.build([("a", "the")], tmp_path / "no_words")
    with pytest.raises(DataError, match="two documents have the id 'a'"):
        Bm25.build([("a", "one"), ("a", "two")], tmp_path / "twice")


def test_a_damaged_an_old_and_a_foreign_index_are_refused(tmp_path):
    index = Bm25.build(DOCUMENTS, tmp_path / "index")
    with pytest.raises(DataError, match="made from other documents"):
        Bm25.load(tmp_path / "index", fingerprint="0" * 64)
    assert Bm25.load(tmp_path / "index", fingerprint=index.fingerprint).top("rain", 1)
    meta = json.loads((tmp_path / "index" / "index.json").read_text())
    (tmp_path / "index" / "index.json").write_text(json.dumps({**meta, "analyzer": 0}))
    with pytest.raises(DataError, match="has analyzer 0, this version makes"):
        Bm25.load(tmp_path / "index")
    (tmp_path / "index" / "index.json").write_text(json.dumps(meta))
    (tmp_path / "index" / "impacts.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(DataError, match=r"damaged \(impacts.npy"):
        Bm25.load(tmp_path / "index")
    assert Bm25.build(DOCUMENTS, tmp_path / "index").top("rain", 1)  # made again


@pytest.mark.parametrize("knobs", [{"k1": 0.0}, {"b": 1.5}, {"workers": 0}])
def test_knobs_out_of_range_are_refused(knobs, tmp_path):
    with pytest.raises(ConfigError, match="search: "):
        Bm25.build(DOCUMENTS, tmp_path / "index", **knobs)


def test_an_index_travels_to_other_processes_by_its_folder(tmp_path):
    index = Bm25.build(DOCUMENTS, tmp_path / "index")
    blob = pickle.dumps(index)
    assert len(blob) < 400
    assert pickle.loads(blob).top("fox", 3) == index.top("fox", 3)


def test_a_repeated_query_is_remembered_and_its_list_is_the_callers_own(tmp_path):
    index = Bm25.build(DOCUMENTS, tmp_path / "index")
    index.top("fox", 3).clear()
    assert len(index.top("fox", 3)) == 3
    assert index._remembered.cache_info().hits == 1


def test_a_script_without_a_main_guard_builds_with_processes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from sharpo.envs.search import build\n"
        "from sharpo.envs.search.bm25 import Bm25\n"
        "build.CHUNK = 2\n"
        "texts = [(name, f'red fox {name}') for name in 'abcdefg']\n"
        f"print(Bm25.build(texts, {str(tmp_path / 'index')!r}, workers=2).top('fox', 1)[0][0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n", "")


def test_a_process_that_fails_is_one_message(tmp_path, monkeypatch):
    monkeypatch.setattr(building, "CHUNK", 2)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(DataError, match=r"failed \(it died .*run the build again"):
        Bm25.build(DOCUMENTS, tmp_path / "index", workers=2)
