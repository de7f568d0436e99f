"""Episodes by both protocols, the reward and its quirks, moments, tasks and their files."""

import functools
import json
import pickle

import pytest
from sharpo.envs.searchqa import SearchQA
from sharpo.envs.searchqa.client import HttpRetriever
from sharpo.envs.searchqa.questions import SOURCES, load
from sharpo.envs.searchqa.retriever import Bm25Retriever, Passage, RetrievalError

from sharpo.errors import ConfigError, DataError
from sharpo.rollout.env_pool import ProcessEnvPool


class Fixed:
    """Answers every search with the same passages, or with an error."""

    def __init__(self, *contents, error=None):
        self.contents, self.error, self.asked = contents, error, []

    def search(self, queries, k):
        self.asked += [(query, k) for query in queries]
        if self.error:
            raise RetrievalError(self.error)
        return [[Passage(str(n), text, 1.0) for n, text in enumerate(self.contents[:k])] for _ in queries]


def begin(**knobs):
    env = SearchQA(**knobs)
    env.reset(options={"task": env.task("val", 0)})  # how high is mount terrik?
    return env


def said(env, text):
    """A turn as the collector plays it."""
    found = env.parse(text)
    observation, reward, done, truncated, info = env.step(None if found is None else found.action)
    penalty = max(info["penalty"], 0.0 if found is None else found.penalty)
    return observation, reward, done, truncated, penalty


def test_an_episode_of_the_windowed_protocol():
    tool = Fixed('"Mount Terrik"\nIt is 2,318 metres high.', '"B"\nb', '"C"\nc', '"D"\nd')
    env = begin(retriever=tool)
    observation, reward, done, truncated, penalty = said(env, "<think>where?</think> <search> Mount Terrik </search>")
    assert json.loads(observation[len("<information>") : -len("</information>")]) == {
        "result": 'Doc 1: "Mount Terrik"\nIt is 2,318 metres high.\nDoc 2: "B"\nb\nDoc 3: "C"\nc\n'
    }
    assert (reward, done, truncated, penalty) == (0.0, False, False, 0.0)
    assert tool.asked == [("Mount Terrik", 3)]
    assert said(env, "<answer>2318 Metres.</answer>") == ("", 1.0, True, False, 0.0)
    outcome = env.outcome()
    assert (outcome.success, outcome.score, outcome.terminated, outcome.reason) == (True, 1.0, True, "done")


def test_a_wrong_answer_ends_the_episode_too():
    env = begin(retriever=Fixed())
    assert said(env, "<answer>high</answer>") == ("", 0.0, True, False, 0.0)
    assert (env.outcome().success, env.outcome().terminated) == (False, True)


def test_in_the_last_turn_nothing_is_searched():
    tool = Fixed("x")
    env = begin(retriever=tool, max_turns=2)
    said(env, "<search>a</search>")
    assert said(env, "<search>b</search>") == ("", 0.0, False, True, 0.0)
    assert tool.asked == [("a", 3)]
    outcome = env.outcome()
    assert (outcome.success, outcome.terminated, outcome.truncated, outcome.reason) == (
        False,
        False,
        True,
        "turn_limit",
    )


def test_an_answer_inside_a_passage_counts_at_the_turn_limit_as_published():
    env = begin(retriever=Fixed("see <answer>2,318 m</answer>"), max_turns=2)
    assert said(env, "<search>a</search>")[1] == 0.0
    assert said(env, "<search>b</search>")[1] == 1.0
    assert (env.outcome().success, env.outcome().terminated, env.outcome().truncated) == (True, False, True)


def test_a_text_without_tags_is_unparsable_or_an_empty_action():
    env = begin(retriever=Fixed("x"), invalid_penalty=0.01)
    assert said(env, "It is high.")[0].startswith("Your answer held no action")
    env = begin(retriever=Fixed("x"), invalid_penalty=0.01, action_format="benchmark")
    assert said(env, "It is high.") == ("", 0.0, False, False, 0.01)
    assert said(env, "<search></search>") == ("", 0.0, False, False, 0.0)  # no query, nothing is searched
    assert env.retriever.asked == []
    assert said(env, "<search>a</search><search>b</search>")[4] == 0.01  # broke the form, and was executed
    assert env.retriever.asked == [("a", 3)]


def test_the_originals_info_is_told():
    tool = Fixed("x")
    env = begin(retriever=tool, action_format="benchmark")
    for text, told in (
        ("<search> a </search>", (True, "a", "<search>a</search>", False, False)),
        ("nothing", (False, None, "", False, True)),
        ("<answer>2,318 m</answer>", (False, None, "<answer>2,318 m</answer>", True, False)),
    ):
        info = env.step(env.parse(text).action)[4]
        assert info["data_source"] == info["family"] == env.current_task.family
        names = ("tool_calling", "tool_input", "postprocessed_action", "won", "invalid")
        assert tuple(info[name] for name in names) == told


def test_an_episode_of_the_growing_protocol():
    tool = Fixed('"Mount Terrik"\nhigh', '"B"\nb')
    env = begin(retriever=tool, protocol="growing", topk=2, max_turns=3)
    assert said(env, "<search>q</search>")[0] == (
        '\n\n<information>Doc 1(Title: "Mount Terrik") high\nDoc 2(Title: "B") b</information>\n\n'
    )
    assert said(env, "<SEARCH>q</SEARCH>")[0].startswith("Your answer held no action")
    assert said(env, "so <answer>2,318 m</answer>") == ("", 1.0, True, False, 0.0)


def test_without_passages_the_agent_is_told():
    assert said(begin(retriever=Fixed()), "<search>q</search>")[0] == (
        '<information>{"result": "No search results found."}</information>'
    )


def test_a_search_that_fails_ends_the_episode_or_is_shown():
    with pytest.raises(RetrievalError, match="server is down"):
        said(begin(retriever=Fixed(error="server is down")), "<search>q</search>")
    env = begin(retriever=Fixed(error="server is down"), search_errors="show")
    assert said(env, "<search>q</search>")[0] == (
        '<information>{"result": "Search error: server is down"}</information>'
    )


def test_long_observations_can_be_cut():
    env = begin(retriever=Fixed("x" * 500), observation_chars=100)
    assert len(said(env, "<search>q</search>")[0]) == 100


def test_an_episode_goes_on_from_a_moment_as_it_did_the_first_time():
    env = begin()
    said(env, "<search>Mount Terrik</search>")
    moment = pickle.loads(pickle.dumps(env.snapshot()))
    turns = ("<search>Oland</search>", "none", "<answer>2,318 m</answer>")
    first = [said(env, text) for text in turns]
    assert first[-1][1:3] == (1.0, True)
    other = SearchQA()
    for again in (env, other):
        again.restore(moment)
        assert [said(again, text) for text in turns] == first
        assert again.outcome() == env.outcome()
    with pytest.raises(RuntimeError, match="before reset"):
        SearchQA().snapshot()


def test_the_informed_oracle_is_always_right_and_the_other_one_where_the_passages_are():
    env, right = SearchQA(), {}
    for informed in (True, False):
        right[informed] = 0
        for index in range(env.num_tasks("val")):
            _, info = env.reset(options={"task": env.task("val", index), "informed_oracle": informed})
            done = False
            while not done:
                _, reward, done, _, info = env.step(info["oracle"])
            right[informed] += reward == 1.0
    assert right[True] == 14
    assert right[False] >= 10
    _, info = env.reset(options={"task": env.task("val", 0), "informed_oracle": None})
    assert info["oracle"] is None


def test_the_sample_has_every_source_in_both_splits():
    env = SearchQA()
    for split in ("train", "val"):
        assert {env.task(split, n).family for n in range(env.num_tasks(split))} == set(SOURCES)


def test_one_file_is_split_by_the_questions_own_names(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text("".join(f'{{"question": "q{n}", "answer": "a", "id": {n}}}\n' for n in range(200)))
    env = SearchQA(train=f"nq={path}")
    names = {split: [env.task(split, n).id for n in range(env.num_tasks(split))] for split in ("train", "val")}
    assert 15 <= len(names["val"]) <= 35
    assert len(names["train"]) + len(names["val"]) == 200
    assert env.task("train", 0).instruction.endswith("?")
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    load.cache_clear()
    assert sorted(SearchQA(train=f"nq={path}").task("val", n).id for n in range(len(names["val"]))) == sorted(
        names["val"]
    )


@pytest.mark.parametrize(
    ("row", "answers"),
    [
        ({"question": "q", "golden_answers": ["a", "b"]}, ("a", "b")),
        ({"question": "q?", "answer": "a"}, ("a",)),
        ({"question": " q ", "reward_model": {"ground_truth": {"target": ["a"]}}}, ("a",)),
        ({"question": "q", "reward_model": {"ground_truth": {"target": "a"}}}, ("a",)),
        ({"env_kwargs": {"question": "q", "ground_truth": {"target": ["a"]}}}, ("a",)),
    ],
)
def test_rows_of_the_published_files_are_read(tmp_path, row, answers):
    path = tmp_path / f"{len(str(row))}.jsonl"
    path.write_text(json.dumps({**row, "data_source": "musique"}) + "\n\n")
    question = load((str(path),))[0]
    assert (question.text, question.answers, question.source) == ("q?", answers, "musique")


def test_parquet_files_are_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pip install pyarrow to read Parquet")
    from pyarrow import parquet

    rows = [{"question": "q", "golden_answers": ["a"], "data_source": "nq", "id": "test_0"}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "q.parquet")
    assert load((str(tmp_path / "q.parquet"),))[0].answers == ("a",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[]", "line 1: not an object"),
        ('{"question": "q"}', "has no golden_answers"),
        ('{"question": "q", "reward_model": {"ground_truth": "a"}}', "has no golden_answers"),
        ('{"env_kwargs": "q", "reward_model": [], "answer": "a"}', "has no question"),
        ('{"answer": "a"}', "has no question"),
        ('{"question": "q", "answer": "a"}', "data_source is None; known: nq"),
        ('{"question": "q", "answer": "a", "data_source": "squad"}', "data_source is 'squad'"),
        ("", "no questions in"),
    ],
)
def test_a_broken_file_of_questions_is_one_message(tmp_path, text, message):
    path = tmp_path / "q.jsonl"
    path.write_text(text)
    load.cache_clear()
    with pytest.raises(DataError, match=message):
        load((str(path),))


def test_missing_files_and_wrong_knobs_are_one_message(tmp_path):
    with pytest.raises(DataError, match="there is no file of questions"):
        SearchQA(train=str(tmp_path / "absent.jsonl")).num_tasks("train")
    with pytest.raises(ConfigError, match="names the source 'squad'"):
        SearchQA(train="squad=x.jsonl").num_tasks("train")
    with pytest.raises(ConfigError, match=r"env\.val=x without env\.train"):
        SearchQA(val="x")
    for knobs in ({"protocol": "x"}, {"search_errors": "x"}, {"topk": 0}, {"reward": 0.0}, {"observation_chars": 0}):
        with pytest.raises(ConfigError, match=f"env.{next(iter(knobs))}"):
            SearchQA(**knobs)
    with pytest.raises(ConfigError, match="there is no question 14"):
        SearchQA().task("val", 14)
    with pytest.raises(ConfigError, match="has no such split"):
        SearchQA().num_tasks("test")


def test_worker_processes_search_and_a_failing_tool_fails_its_own_episode():
    make = functools.partial(SearchQA, retriever=Bm25Retriever())
    down = functools.partial(SearchQA, retriever=HttpRetriever("http://127.0.0.1:9/retrieve", tries=1))
    for factory, failure in ((make, None), (down, "env_error")):
        pool = ProcessEnvPool(factory, workers=2)
        try:
            for slot in range(4):
                pool.reset(slot, make().task("val", slot))
            assert all(event.failure is None for event in answers(pool, 4))
            for slot in range(4):
                pool.step(slot, "<search>Varnholt</search>")
            events = answers(pool, 4)
            assert {event.failure for event in events} == {failure}
            word = "Varnholt" if failure is None else "did not answer a search in 1 tries"
            assert all(word in event.observed.text + event.message for event in events)
        finally:
            pool.close()


def answers(pool, count):
    events = []
    while len(events) < count:
        events += pool.poll(5.0)
    return events
