"""Reading a turn, the reward, and what a search answers: the published rules, case by case."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sharpo.envs.searchqa import parse
from sharpo.envs.searchqa.protocols import NOTHING_FOUND, shown
from sharpo.envs.searchqa.retriever import Passage
from sharpo.envs.searchqa.reward import exact_match, last_answer, normalize


@pytest.mark.parametrize(
    ("text", "action", "valid"),
    [
        ("<think>a</think><search> q </search>", "<search>q</search>", True),
        ("<answer>\nx y\n</answer>", "<answer>x y</answer>", True),
        ("<SEARCH>q</SEARCH>", "<search>q</search>", True),
        ("<search>a\nb</search> more", "<search>a\nb</search>", True),
        ("<answer>x</answer><search>q</search>", "<search>q</search>", False),  # executed, but both tags
        ("<search>q</search><answer>x</answer>", "<search>q</search>", False),
        ("<search>a</search><search>b</search>", "<search>a</search>", False),
        ("<answer>a</answer><answer>b</answer>", "<answer>a</answer>", False),
        ("<search>q</search> then <answer>", "<search>q</search>", False),
        ("<answer>x</answer> text <search>q", "<answer>x</answer>", False),
        ("</search><search>q</search>", "", False),  # cut after the first closing tag: nothing is left
        ("<search></search>", "<search></search>", True),
        ("no tags", "", False),
        ("<search>never closed", "", False),
        ("", "", False),
    ],
)
def test_a_windowed_turn(text, action, valid):
    found = parse.windowed(text)
    assert (found.action, found.valid) == (action, valid)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("x <search> q </search> y <answer>a</answer>", "<search>q</search>"),
        ("<answer>a</answer><search>q</search>", "<answer>a</answer>"),
        ("<search>q</answer>", None),
        ("<search>a<answer>b</answer>", "<answer>b</answer>"),
        ("<Answer>b</Answer>", None),
        ("", None),
    ],
)
def test_a_growing_turn(text, action):
    found = parse.growing(text)
    assert (None if found is None else found.action) == action


@given(
    st.text(alphabet="ab <>/", max_size=8), st.text(alphabet="ab \n", max_size=8), st.sampled_from(["search", "answer"])
)
def test_the_spans_of_an_action_are_where_it_stands(before, inner, kind):
    text = f"<think>t</think>{before}<{kind}>{inner}</{kind}>"
    for found in (parse.windowed(text), parse.growing(text)):
        start, stop = found.chars["action_with_tags"]
        assert text[start:stop] == f"<{kind}>{inner}</{kind}>"
        start, stop = found.chars["action"]
        assert text[start:stop] == (inner.strip() or f"<{kind}>{inner}</{kind}>")
        start, stop = found.chars["think"]
        assert text[start:stop] == "t"


@pytest.mark.parametrize(
    ("prediction", "answers", "matches"),
    [
        ("The Beatles!", ["beatles"], True),
        ("the a an", [""], True),
        ("U.S.", ["us"], True),
        ("1,000", ["1000"], True),
        ("New-York", ["new york"], False),
        ("Madison", ["james madison"], False),
        ("two", ["one", "Two."], True),
        ("caf\u00e9", ["cafe"], False),
    ],
)
def test_exact_match(prediction, answers, matches):
    assert exact_match(prediction, answers) is matches


def test_normalisation_keeps_what_is_no_ascii_punctuation():
    assert normalize(" An  \u201cApple\u201d a-day\n") == "\u201capple\u201d aday"


def test_the_last_answer_counts_and_an_example_in_the_prompt_asks_for_two():
    assert last_answer("<answer>a</answer> <answer> b\n</answer>") == "b"
    assert last_answer("none") is None
    prompt = "for example <answer> Lisbon </answer>."
    assert last_answer(prompt, least=2) is None
    assert last_answer(f"{prompt} so <answer>Rome</answer>", least=2) == "Rome"


def test_passages_as_the_windowed_tool_shows_them():
    found = [Passage("1", ' "A"\none\n ', 2.0), Passage("2", '"B\u00e9"\ntwo', 1.0)]
    text = shown("windowed", found)
    inner = text.removeprefix("<information>").removesuffix("</information>")
    assert json.loads(inner) == {"result": 'Doc 1: "A"\none\nDoc 2: "B\u00e9"\ntwo\n'}
    assert "\\u00e9" in text  # JSON in ASCII, as published
    assert shown("windowed", []) == f'<information>{{"result": "{NOTHING_FOUND}"}}</information>'


def test_passages_as_the_growing_context_shows_them():
    found = [Passage("1", '"A"\none\ntwo', 2.0), Passage("2", "B", 1.0)]
    assert shown("growing", found) == '\n\n<information>Doc 1(Title: "A") one\ntwo\nDoc 2(Title: B)</information>\n\n'
    assert shown("growing", []) == "\n\n<information></information>\n\n"
