"""Every environment of configs/env keeps the contract that collectors, metrics and algorithms rely on."""

import os
import warnings
from pathlib import Path

import pytest
from gymnasium.utils.env_checker import check_env
from hydra import compose, initialize_config_module
from hydra.utils import instantiate

from sharpo.errors import DataError

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "env"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def test_there_are_environments_to_check():
    assert {"household", "household_tiny", "alfworld"} <= set(NAMES)


@pytest.fixture(params=NAMES)
def make(request, monkeypatch):
    """Make the environment a config describes, as the prompt group would complete it."""
    if request.param.startswith("alfworld") and "ALFWORLD_DATA" not in os.environ:
        monkeypatch.setenv("ALFWORLD_DATA", str(request.getfixturevalue("alfworld_games")))
    if request.param.startswith("webshop"):
        monkeypatch.setenv("WEBSHOP_DATA", str(request.getfixturevalue("made_up_shop")))
    with initialize_config_module("sharpo.configs", version_base="1.3"):
        config = compose(overrides=[f"+env={request.param}", "+prompt.action_format=tags"]).env

    def build(**changes):
        return instantiate(config, **changes)

    env = build()
    try:
        env.task("train", 0)
        env.task("val", 0)
    except DataError as error:
        if not request.param.startswith("alfworld"):  # every other one has data of its own to play on
            raise
        pytest.skip(str(error))
    return build


def test_gymnasium_accepts_it(make):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="gymnasium")  # it advises against what FreeText is for
        check_env(make(), skip_render_check=True)


def test_tasks_are_the_same_for_the_same_index_and_declare_their_family(make):
    one, two = make(), make()
    ids = []
    for split in ("train", "val"):
        for index in range(min(6, one.num_tasks(split) or 6)):
            task = one.task(split, index)
            assert task == two.task(split, index)
            assert task.family in one.families
            assert task.instruction
            ids.append(task.id)
    assert len(set(ids)) == len(ids) >= 2


def test_the_same_actions_give_the_same_episode(make):
    def transcript():
        env = make()
        text, info = env.reset(options={"task": env.task("val", 1)})
        lines = [text]
        for turn in range(8):
            choices = info["admissible"] or (info["oracle"],)  # free text: there is no list
            text, reward, done, truncated, info = env.step(choices[turn % len(choices)])
            lines.append((text, reward, done, truncated, info["admissible"], info["oracle"]))
            if done or truncated:
                break
        return lines

    assert transcript() == transcript()


def test_a_seed_draws_a_training_task(make):
    env = make()
    first = env.reset(seed=3)
    task = env.current_task
    assert env.reset(seed=3) == first
    assert env.current_task == task
    assert "/train/" in task.id


def test_score_and_success_are_in_range_all_the_way(make):
    env = make()
    for index in range(3):
        _, info = env.reset(options={"task": env.task("val", index), "informed_oracle": True})
        done = truncated = False
        while not (done or truncated):
            _, _, done, truncated, info = env.step(info["oracle"] or "look")
            outcome = env.outcome()
            assert 0.0 <= outcome.score <= 1.0
            assert (outcome.terminated, outcome.truncated) == (done, truncated)
            assert outcome.success == done


def test_an_unparsable_action_changes_nothing_and_costs_its_penalty(make):
    env, undisturbed = (make(invalid_penalty=0.1, max_turns=9) for _ in range(2))
    (_, info), _ = (one.reset(options={"task": one.task("val", 0)}) for one in (env, undisturbed))
    for text in ("no tags here", "<action></action>", ""):
        assert env.parse(text) is None
    text, reward, done, _, after = env.step(None)
    assert "no action" in text
    assert (reward, done, after["penalty"]) == (0.0, False, 0.1)
    assert (after["admissible"], after["oracle"]) == (info["admissible"], info["oracle"])
    for _ in range(3):
        answer = env.step(after["oracle"])
        assert answer == undisturbed.step(after["oracle"])
        *_, done, _, after = answer
        assert after["penalty"] == 0.0
        if done:
            break


def test_the_episode_is_truncated_exactly_at_the_turn_limit(make):
    env = make(max_turns=4)
    env.reset(options={"task": env.task("val", 0)})
    for turn, action in enumerate((None, "look", "an unknown action", None)):
        _, _, done, truncated, _ = env.step(action)
        assert not done
        assert truncated == (turn == 3)
    assert env.outcome().reason == "turn_limit"
    assert env.outcome().truncated
