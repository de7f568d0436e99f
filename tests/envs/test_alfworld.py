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


def opened_before_seen(env, task):
    """Play the exploring expert; return what it opened empty-handed while something else stood open, and the turns."""
    _, info = env.reset(options={"task": task})
    done = truncated = False
    early, turns = [], 0
    while not (done or truncated):
        floor, seen = env._floor, env._seen
        left = [place for place in floor.listed if place not in seen and place not in floor.openable]
        empty = not any(fact[0] == "holds" for fact in floor.game.facts(env._state))
        if info["oracle"].startswith("open") and left and empty:
            early.append(info["oracle"])
        _, _, done, truncated, info = env.step(info["oracle"])
        turns += 1
    return early, turns


def test_open_first_looks_at_what_stands_open_and_wins_sooner(alfworld_games):
    listed, wiser = (AlfWorld(data=str(alfworld_games), open_first=chosen) for chosen in (False, True))
    searched = [index for index in range(5) if listed.task("val", index).family in ("pick", "look", "clean")]
    turns = {}
    for env in (listed, wiser):
        played = [opened_before_seen(env, env.task("val", index)) for index in searched]
        turns[env.open_first] = sum(count for _, count in played)
        assert any(early for early, _ in played) != env.open_first
    assert turns[True] < turns[False]


def test_the_expert_looks_around_when_it_holds_what_fits_nowhere(env):
    from sharpo.envs import oracle

    env.reset(options={"task": env.task("val", 0)})
    now = oracle.View(env._floor, env._state, env._options)
    now.held = "papertowelroll"
    assert oracle.advise(now, frozenset()) == "look"


def test_training_games_can_be_a_part_that_is_always_the_same(alfworld_games):
    whole, one = AlfWorld(data=str(alfworld_games)), AlfWorld(data=str(alfworld_games), train_games=1)
    assert (whole.num_tasks("train"), one.num_tasks("train"), one.num_tasks("val")) == (2, 1, 5)
    assert one.task("train", 0) in [whole.task("train", index) for index in range(2)]
    assert AlfWorld(data=str(alfworld_games), train_games=2).task("train", 1) == whole.task("train", 1)
    with pytest.raises(ConfigError, match=r"env.train_games=3: there are 2 training games"):
        AlfWorld(data=str(alfworld_games), train_games=3).num_tasks("train")
    with pytest.raises(ConfigError, match=r"env.train_games must be at least 1"):
        AlfWorld(data=str(alfworld_games), train_games=0)


def test_a_thing_and_its_number_are_two_tokens_and_a_receptacle_one(env):
    from sharpo.policy.tiny import word_tokenizer

    tokenizer = word_tokenizer(env.lexicon())
    assert tokenizer.encode("take mug 2 from cabinet 10").tokens == ["take", "mug", "2", "from", "cabinet 10"]
    assert tokenizer.encode("You arrive at loc 7. On the safe 1, you see a cup 3.").tokens == [
        "you arrive at loc", "7", ". on the", "safe 1", ", you see a", "cup", "3", "."
    ]  # fmt: skip


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
