"""Collector: order, budgets, seeds, failures, no barrier per turn."""

from __future__ import annotations

import pytest
from toy_env import ToyEnv

from sharpo.engine.expert import ExpertEngine
from sharpo.engine.scripted import ScriptedEngine
from sharpo.errors import ConfigError, DataError, EngineError
from sharpo.rollout.play import Budgets


def solved(result):
    return [[episode.outcome.success for episode in group] for group in result.groups]


def test_the_expert_solves_every_task_and_the_counts_add_up(play):
    result = play(6, 2, engine=ExpertEngine())
    assert solved(result) == [[True, True]] * 6
    assert [group[0].task.id for group in result.groups] == [f"toy/train/{i}" for i in range(6)]
    assert [[episode.member for episode in group] for group in result.groups] == [[0, 1]] * 6
    turns = [turn for group in result.groups for episode in group for turn in episode.turns]
    stats = result.stats
    assert (stats.episodes, stats.turns, stats.invalid) == (12, len(turns), 0)
    assert stats.tokens == sum(len(turn.action_ids) for turn in turns)
    assert stats.prompt_tokens == sum(len(turn.prompt_ids) for turn in turns)
    assert stats.families == {"pick": (6, 6), "clean": (6, 6)}
    assert stats.metrics()["success"] == 1.0


@pytest.mark.parametrize("concurrency", [1, 3, 64])
def test_results_do_not_depend_on_the_order_in_which_environments_answer(play, fake_pool, concurrency):
    usual = play(4, 3)
    pool = fake_pool(delay={0: 5, 2: 1})
    other = play(4, 3, pool=pool, budgets=Budgets(concurrency=concurrency))
    assert other.groups == usual.groups
    assert pool.most <= concurrency


def test_a_slow_environment_does_not_hold_up_the_others(play, fake_pool):
    pool = fake_pool(delay={0: 50})
    play(2, 2, pool=pool, engine=ExpertEngine())
    first_of_slow = pool.log.index((0, -1))
    finished = {slot for slot, turn in pool.log[:first_of_slow] if turn >= 2}
    assert finished == {1, 2, 3}


def test_members_of_a_group_have_different_seeds_and_versions_too(play):
    seeds = []

    class Recorder(ExpertEngine):
        def act(self, request):
            seeds.append((request.view.task.id, request.view.member, request.view.turn, request.seed))
            return super().act(request)

    play(2, 3, engine=Recorder())
    play(2, 3, engine=Recorder(), version=1)
    assert len({seed for *_, seed in seeds}) == len(seeds)


def test_the_same_task_twice_in_a_collection_is_played_with_other_seeds(play):
    task = ToyEnv().task("train", 1)
    one, two = play([task, task], 2, engine=ExpertEngine(noise=0.9)).groups
    assert [e.turns for e in one] != [e.turns for e in two]


def test_an_answer_without_an_action_is_none_and_costs_the_penalty(play, toy_tokenizer):
    from sharpo.rollout.render import Renderer

    renderer = Renderer(toy_tokenizer, style="append", template="household_plain", action_format="tags")
    engine = ScriptedEngine(["look"], encode=lambda text: [*renderer.tokenize(text), renderer.turn_end[0]])
    env = ToyEnv(max_turns=3, action_format="tags")
    result = play(1, 2, engine=engine, renderer=renderer, env=env)
    (episode, _) = result.groups[0]
    assert [turn.action for turn in episode.turns] == [None] * 3
    assert [turn.penalty for turn in episode.turns] == [0.1] * 3
    assert episode.turns[0].spans == {}
    assert result.stats.invalid == 6
    assert (episode.outcome.truncated, episode.outcome.reason) == (True, "turn_limit")


def test_a_turn_is_cut_at_its_budget_and_the_episode_goes_on(play):
    result = play(1, 2, engine=ScriptedEngine(["go to box 1"]), budgets=Budgets(turn_tokens=2))
    turns = result.groups[0][0].turns
    assert len(turns) == ToyEnv().max_turns
    assert {(turn.finish, turn.text) for turn in turns} == {("length", "go to")}
    end = turns[0].prompt_ids + turns[0].action_ids
    assert turns[1].prompt_ids[: len(end)] == end


def test_the_episode_budget_counts_sampled_tokens_and_ends_the_episode_as_truncated(play):
    result = play(1, 2, engine=ScriptedEngine(["go to box 1"]), budgets=Budgets(episode_tokens=12))
    episode = result.groups[0][0]
    assert [len(turn.action_ids) for turn in episode.turns] == [5, 5, 2]
    assert (episode.outcome.success, episode.outcome.reason) == (False, "episode_tokens")
    assert result.stats.truncated == {"episode_tokens": 2}


@pytest.mark.parametrize("where", ["engine", "budget"])
def test_a_full_window_ends_the_episode_as_truncated_and_never_overflows(play, where):
    limit = 45
    engine = ScriptedEngine(["go to box 1"], max_context=limit if where == "engine" else None)
    result = play(1, 2, engine=engine, budgets=Budgets(context=None if where == "engine" else limit))
    episode = result.groups[0][0]
    assert episode.outcome.reason == "context_window"
    assert all(len(turn.prompt_ids) + len(turn.action_ids) <= limit for turn in episode.turns)


def test_a_first_prompt_beyond_the_window_loses_the_group_with_a_clear_message(play):
    with pytest.raises(DataError, match=r"first prompt has \d+ tokens, the window 5"):
        play(1, 2, budgets=Budgets(context=5))


@pytest.mark.parametrize("reason", ["env_timeout", "env_error"])
def test_a_failing_environment_ends_its_episode_as_truncated_and_counted(play, fake_pool, reason):
    pool = fake_pool(fail=lambda task, turn: reason if task.id.endswith("/1") and turn == 1 else None)
    result = play(3, 2, pool=pool, engine=ExpertEngine())
    assert solved(result) == [[True, True], [False, False], [True, True]]
    hit = result.groups[1][0]
    assert (len(hit.turns), hit.outcome.reason, hit.turns[-1].next_observation) == (2, reason, "")
    assert result.stats.truncated == {reason: 2}


def test_a_failed_start_is_tried_again_once(play, fake_pool):
    failed = set()

    def once(task, turn):
        if turn == -1 and task.id not in failed:
            failed.add(task.id)
            return "env_error"
        return None

    result = play(3, 2, pool=fake_pool(fail=once), engine=ExpertEngine())
    assert solved(result) == [[True, True]] * 3
    assert (result.stats.retries, result.stats.lost_episodes, result.stats.lost_groups) == (3, 0, 0)


def test_a_group_that_loses_a_member_is_dropped_and_counted_and_losing_all_is_an_error(play, fake_pool):
    broken = fake_pool(fail=lambda task, turn: "env_error" if task.id.endswith("/1") else None)
    result = play(3, 2, pool=broken)
    assert [group[0].task.id for group in result.groups] == ["toy/train/0", "toy/train/2"]
    assert (result.stats.lost_episodes, result.stats.lost_groups) == (2, 1)
    with pytest.raises(DataError, match=r"not one of 2 groups is complete.*planted"):
        play(2, 2, pool=fake_pool(fail=lambda task, turn: "env_error"))


def test_validation_keeps_a_lost_play_as_a_failed_episode(play, fake_pool):
    broken = fake_pool(fail=lambda task, turn: "env_error" if task.id.endswith("/1") else None)
    result = play(3, 1, pool=broken, engine=ExpertEngine(), keep_lost=True)
    assert solved(result) == [[True], [False], [True]]
    lost = result.groups[1][0]
    assert (len(lost.turns), lost.turns[0].action, lost.outcome.reason) == (1, None, "env_error")
    assert (result.stats.episodes, result.stats.lost_episodes, result.stats.lost_groups) == (3, 1, 0)
    with pytest.raises(DataError, match="first prompt"):
        play(2, 1, budgets=Budgets(context=5), keep_lost=True)


def test_hinted_members_get_an_informed_oracle(play, fake_pool):
    pool = fake_pool()
    far = ToyEnv().task("train", 4)  # the key lies in box 3
    result = play([far], 2, pool=pool, engine=ExpertEngine(), hinted_members=frozenset({1}))
    assert pool.informed == [False, True]
    assert [len(episode.turns) for episode in result.groups[0]] == [5, 3]


def test_expert_noise_is_trained_on_in_plain_episodes_and_only_executed_in_hinted_ones(play):
    result = play(4, 4, engine=ExpertEngine(noise=0.5), hinted_members=frozenset({2, 3}))
    flags = [[t.trainable for e in group for t in e.turns if e.member in (0, 1)] for group in result.groups]
    assert all(all(row) for row in flags)
    assert not all(t.trainable for group in result.groups for e in group[2:] for t in e.turns)


def test_stale_weights_are_refused_and_progress_is_reported(play, toy_renderer, fake_pool):
    from sharpo.rollout.collector import Collector

    engine = ExpertEngine(encode=toy_renderer.action_ids)
    env = ToyEnv()
    collector = Collector(engine, fake_pool(), toy_renderer, env.parse)
    with pytest.raises(EngineError, match="publish first"):
        collector.collect([env.task("train", 0)], 2, seed=0, version=3, temperature=1.0)
    seen = []
    play(2, 2, engine=ExpertEngine(), on_progress=lambda *numbers: seen.append(numbers))
    assert [numbers[:2] for numbers in seen] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert seen[-1][4:] == (1.0, 1.0)


def test_nothing_to_play_is_an_empty_result(play):
    assert play(0, 1).groups == []


@pytest.mark.parametrize("name", ["turn_tokens", "episode_tokens", "context", "concurrency"])
def test_budgets_below_one_are_refused(name):
    with pytest.raises(ConfigError, match=f"data.budgets.{name} must be >= 1"):
        Budgets(**{name: 0})
