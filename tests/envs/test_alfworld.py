"""ALFWorld's own games: found by rule, named by their folder, solved by the expert, absent with a clear message."""

import random

import pytest
from sharpo.envs.alfworld import AlfWorld, games

from sharpo.errors import ConfigError, DataError


@pytest.fixture
def env(alfworld_games):
    return AlfWorld(data=str(alfworld_games))


def test_games_are_sorted_and_families_come_from_the_folder(env):
    tasks = [env.task("val", index) for index in range(env.num_tasks("val"))]
    assert [task.id for task in tasks] == sorted(task.id for task in tasks)
    assert [task.family for task in tasks] == ["look", "pick", "pick", "clean", "pick2"]
    assert all(task.id == f"alfworld/{task.payload['game']}" for task in tasks)
    assert env.task("train", 0).id.startswith("alfworld/train/")
    with pytest.raises(ConfigError, match="has 5 games, so there is no game 5"):
        env.task("val", 5)


def test_the_informed_expert_wins_real_games_and_the_exploring_one_stays_admissible(env):
    for index in range(5):
        task = env.task("val", index)
        for informed in (True, False):
            text, info = env.reset(options={"task": task, "informed_oracle": informed})
            assert f"Your task is to: {task.instruction}." in text
            done = truncated = False
            while not (done or truncated):
                assert info["oracle"] in info["admissible"]
                _, reward, done, truncated, info = env.step(info["oracle"])
            assert done or not informed
            assert (reward == 10.0) == done


def test_every_text_is_covered_by_the_lexicon(env):
    from sharpo.policy.tiny import UNKNOWN, word_tokenizer

    tokenizer = word_tokenizer(env.lexicon())
    rng = random.Random(0)
    for index in range(5):
        task = env.task("val", index)
        text, info = env.reset(options={"task": task})
        texts = {text, task.instruction, *info["admissible"]}
        for _ in range(25):
            text, _, done, _, info = env.step(info["oracle"] if rng.random() < 0.5 else rng.choice(info["admissible"]))
            texts |= {text, *info["admissible"]}
            if done:
                break
        for text in texts:
            assert UNKNOWN not in tokenizer.encode(text).tokens, text


def test_games_that_the_benchmark_skips_are_skipped(tmp_path):
    def put(name, text):
        folder = tmp_path / "valid_seen" / name / "trial"
        folder.mkdir(parents=True)
        (folder / "game.tw-pddl").write_text(text)

    put("pick_and_place_simple-Mug-None-Desk-308", '{"grammar": "", "solvable": true}')
    put("pick_and_place_simple-Mug-None-Desk-309", '{"grammar": "", "solvable": true, "walkthrough": ["look"]}')
    put("pick_and_place_simple-Mug-None-Desk-310", '{"grammar": "", "solvable": false}')
    put("pick_and_place_simple-Mug-None-Desk-311", '{"solvable": false, "grammar": "' + "x" * 9000 + '"}')
    put("pick_and_place_simple-MugSliced-None-Desk-312", '{"solvable": true}')
    put("pick_and_place_with_movable_recep-Mug-Bowl-Desk-313", '{"solvable": true}')
    found = games(tmp_path / "valid_seen")
    assert [name.split("/")[0][-3:] for name in found] == ["308", "309"]


def test_an_absent_folder_says_what_to_run(tmp_path):
    env = AlfWorld(data=str(tmp_path))
    with pytest.raises(DataError, match=f"no ALFWorld games in {tmp_path}/train: run `python -m sharpo.data"):
        env.num_tasks("train")
    with pytest.raises(ConfigError, match="val_split must be"):
        AlfWorld(data=str(tmp_path), val_split="test")


def test_a_game_that_went_away_is_named(env, tmp_path):
    task = env.task("val", 0)
    elsewhere = AlfWorld(data=str(tmp_path))
    from sharpo.envs import textgames

    textgames._loaded.clear()
    with pytest.raises(DataError, match=r"is not there: set env\.data"):
        elsewhere.reset(options={"task": task})
