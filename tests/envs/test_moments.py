"""Moments of an episode: kept, gone back to, sent elsewhere, played in threads; an oracle only when it is asked."""

import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from sharpo.envs import textgames
from sharpo.envs.alfworld import AlfWorld


@pytest.fixture
def env(alfworld_games):
    return AlfWorld(data=str(alfworld_games), max_turns=40)


def walk(env, rng, turns):
    """Play at random; what was answered and could be done, turn by turn."""
    seen = []
    for _ in range(turns):
        text, reward, done, truncated, info = env.step(rng.choice(env._observed.admissible))
        seen.append((text, reward, done, truncated, info["admissible"], info["oracle"]))
        if done or truncated:
            break
    return seen


def test_an_episode_goes_on_from_a_moment_as_it_did_the_first_time(env, alfworld_games):
    for index in (0, 4):
        task = env.task("val", index)
        env.reset(options={"task": task})
        walk(env, random.Random(1), 6)
        moment = env.snapshot()
        first = walk(env, random.Random(2), 12)
        for other in (env, AlfWorld(data=str(alfworld_games), max_turns=40)):
            other.restore(moment)
            assert walk(other, random.Random(2), 12) == first
            assert other.outcome() == env.outcome()


def test_a_moment_of_another_task_brings_its_game_with_it(env):
    env.reset(options={"task": env.task("val", 0)})
    moment, text = env.snapshot(), env.step("inventory")[0]
    env.reset(options={"task": env.task("val", 1)})
    env.restore(moment)
    assert env.current_task == env.task("val", 0)
    assert env.step("inventory")[0] == text
    with pytest.raises(RuntimeError, match="before reset"):
        AlfWorld(data="anywhere").snapshot()


def test_environments_games_and_moments_can_be_pickled(env):
    env.reset(options={"task": env.task("val", 2)})
    walk(env, random.Random(3), 5)
    copy, moment = pickle.loads(pickle.dumps((env, env.snapshot())))
    expected = walk(env, random.Random(4), 10)
    assert walk(copy, random.Random(4), 10) == expected
    copy.restore(moment)
    assert walk(copy, random.Random(4), 10) == expected
    assert len(pickle.dumps(moment)) < 100_000


def test_threads_play_one_game_without_disturbing_each_other(env, alfworld_games):
    textgames._loaded.clear()
    tasks = [env.task("val", index) for index in (0, 3)]

    def episode(number):
        mine = AlfWorld(data=str(alfworld_games), max_turns=40)
        text, _ = mine.reset(options={"task": tasks[number % 2]})
        return text, walk(mine, random.Random(number % 6), 40)

    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(episode, range(48)))
    assert together == [episode(number) for number in range(48)]


def test_an_oracle_that_nobody_asks_is_not_computed(env, monkeypatch):
    asked = []
    monkeypatch.setattr(textgames, "advise", lambda *a: asked.append(a))
    env.reset(options={"task": env.task("val", 0), "informed_oracle": None})
    *_, info = env.step("look")
    assert (info["oracle"], asked) == (None, [])
    env.reset(options={"task": env.task("val", 0)})
    env.step("look")
    assert len(asked) == 2


def test_a_command_that_the_game_does_not_know_is_invalid_only_when_strict(alfworld_games):
    for strict in (False, True):
        env = AlfWorld(data=str(alfworld_games), strict=strict, invalid_penalty=0.1)
        _, before = env.reset(options={"task": env.task("val", 0)})
        text, reward, done, _, info = env.step("go to the moon")
        assert (text, reward, done) == ("Nothing happens.", 0.0, False)
        assert (info["invalid"], info["penalty"]) == (strict, 0.1 if strict else 0.0)
        assert info["admissible"] == before["admissible"]
        assert not env.step(before["admissible"][0])[4]["invalid"]
        assert env.step(None)[4]["penalty"] == 0.1
