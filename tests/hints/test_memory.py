"""Successes of earlier iterations: bounded, restored exactly, the same on any number of ranks, never of this one."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import pytest
from made import remembered

from sharpo.errors import DataError
from sharpo.hints.attempt import Wording
from sharpo.hints.memory import Memory, slim
from sharpo.hints.peer import PeerHint
from sharpo.hints.skill import SkillHint
from sharpo.rollout.memory import remember

SHORT = Wording("", "{action} ", "{action} ", "", "")
Replay = partial(PeerHint, fallback="replay_buffer", wording=SHORT)


def test_the_oldest_task_goes_first_and_a_new_success_makes_a_task_young_again(made):
    memory = Memory(2)
    for name in ("a", "b", "a", "c"):
        memory.remember([made.episode(0, [f"act {name}"], True, made.task(name=name))])
    assert [memory.of(name) is None for name in "abc"] == [False, True, False]
    assert len(memory) == 2
    again = Memory(2)
    again.restore(memory.state())
    assert again.state() == memory.state()
    again.remember([made.episode(0, ["act"], True, made.task(name="d"))])
    assert again.of("a") is None
    smaller = Memory(1)
    smaller.restore(memory.state())
    assert smaller.of("c") is not None
    assert len(smaller) == 1


def test_no_token_ids_are_kept(made):
    kept = slim(made.episode(0, ["a", "b"], True))
    assert [(turn.prompt_ids, turn.action_ids, turn.action) for turn in kept.turns] == [((), (), "a"), ((), (), "b")]


def test_an_earlier_success_stands_in_for_a_peer_and_never_one_of_the_same_iteration(made):
    hint, task = Replay(), made.task(name="t/7")
    first = made.group((["take", "put"], True), (["look"], False), task=task, version=3)
    assert hint.build(first, 0, made.words) is None  # its own success is no peer, and nothing is remembered yet
    remember(hint, [task], [first])
    second = made.group((["jump"], False), (["wait"], False), task=task, version=9)
    built, text = made.spoken(hint, second, 1)
    assert (built.source, text) == ("replay:3", "take put ")
    assert len(hint.build(second, 0, made.words, 1).ids) == 0
    third = made.group((["open"], True), (["wait"], False), task=task, version=12)
    assert hint.build(third, 1, made.words).source == "peer:0"  # a peer comes first
    assert hint.build(third, 0, made.words).source == "replay:3"
    remember(hint, [task], [third])
    assert made.spoken(hint, second, 0)[0].source == "replay:12"
    assert hint.build(made.group((["a"], False), (["b"], False)), 0, made.words) is None  # another task


def test_the_pick_chooses_what_is_remembered(made):
    group = made.group((["a"], False), (["b", "c"], True), (["d"], True), ([None], True))
    assert PeerHint().chosen(group).member == 1
    assert PeerHint("shortest").chosen(group).member == 2
    assert PeerHint().chosen(made.group((["a"], False), ([None], True))) is None
    assert PeerHint().memory is None
    remember(PeerHint(), [group.task], [group])  # nothing to do


def test_a_group_that_is_not_whole_is_passed_over(made):
    tasks = [made.task(name=name) for name in "abc"]
    groups = [made.group(([f"act {task.id}"], True), (["x"], False), task=task) for task in (tasks[0], tasks[2])]
    hint = Replay()
    remember(hint, tasks, groups)
    assert [hint.memory.of(name) is None for name in "abc"] == [False, True, False]


def test_one_and_two_ranks_remember_the_same_in_the_same_order(tmp_path):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        two = list(pool.map(remembered, [tmp_path] * 2, range(2), [2] * 2, timeout=120))
    one = remembered(tmp_path)
    assert two == [one, one]
    assert len(one) == 5


def test_skills_stand_in_for_a_peer(made):
    group = made.group((["a"], False), (["b"], False), task=made.task("heat"))
    hint = PeerHint(fallback="skills", skills="household")
    assert hint.build(group, 0, made.words) == SkillHint("household").build(group, 0, made.words)
    assert hint.build(group, 0, made.words, 40).shortened
    assert hint.build(made.group((["a"], False), (["b"], True)), 0, made.words).source == "peer:1"
    with pytest.raises(DataError, match="no text for the family 'chess'"):
        hint.check_families(["heat", "chess"])
    PeerHint().check_families(["chess"])
