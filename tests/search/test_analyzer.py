"""Tokens and stems are Lucene's, letter for letter."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sharpo.envs.search.analyzer import STOP_WORDS, terms
from sharpo.envs.search.tokens import _ASCII, _TOKEN, LONGEST, _found, tokens


def test_terms_are_lucenes_on_every_recorded_text(shared_data):
    recorded = json.loads((shared_data / "webshop" / "analyzer_fixtures.json").read_text())
    assert len(recorded) == 208
    wrong = [(text, expected, terms(text)) for text, expected in recorded if terms(text) != expected]
    assert wrong == []


def test_stems_are_lucenes_on_every_recorded_word(shared_data):
    lines = (shared_data / "webshop" / "porter_vectors.tsv").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t") for line in lines]
    assert len(pairs) == 13_864
    kept = [(word, stem) for word, stem in pairs if tokens(word) == [word] and word not in STOP_WORDS]
    assert len(kept) > 13_700
    assert [(word, stem, terms(word)) for word, stem in kept if terms(word) != [stem]] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("___ !? --", []),
        ("the AND Not", []),
        ("X-Large 5'9\" a.b 1,5 a,b 10:30 a:b", ["x", "larg", "5'9", "a.b", "1,5", "b", "10", "30", "a:b"]),
        ("John's JOHN\u2019S dogs' it's", ["john", "john", "dog"]),
        ("\u0130stanbul \u03a3\u0399\u03a3", ["istanbul", "\u03c3\u03b9\u03c3"]),  # as Java: no dot, no final sigma
        ("\u0e1c\u0e39\u0e49\u0e2b\u0e0d\u0e34\u0e07", ["\u0e1c\u0e39\u0e49\u0e2b\u0e0d\u0e34\u0e07"]),  # Thai: one run
        ("1\ufe0f\u20e3 2", ["1\ufe0f\u20e3", "2"]),
        ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", ["\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7"]),  # two flags
    ],
)
def test_rules_one_by_one(text, expected):
    assert terms(text) == expected


def test_a_run_of_more_than_255_letters_is_cut():
    assert [len(word) for word in tokens("a" * 600 + ".b " + "c" * 254 + ".d")] == [LONGEST, LONGEST, 92, 254, 1]


@given(
    st.text(
        alphabet=st.sampled_from("aZ09_'.:,;-\" \n\u00e9\u05d0\u30ab\u4e2d\u2019\U0001f600\ufe0f\u200d"), max_size=60
    )
)
def test_the_fast_paths_agree_with_the_full_rules(text):
    assert tokens(text) == _found(_TOKEN, text)
    if text.isascii():
        assert _found(_ASCII, text) == _found(_TOKEN, text)
