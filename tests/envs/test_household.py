"""Generated games: fair, balanced, reproducible from a small payload, solved by the expert, covered by the lexicon."""

import json
import random
import sys

import pytest
from sharpo.envs import scenes
from sharpo.envs.household import Household

from sharpo.episode import Task
from sharpo.errors import ConfigError

TINY = ["Apple", "Bowl", "Book", "CellPhone", "CreditCard", "Cup", "Egg", "Mug", "Pen", "Plate", "Potato", "Tomato"]


@pytest.fixture(scope="module")
def tiny():
    return Household(receptacles=6, objects=4, object_types=TINY, max_turns=12)


def expert(env, task, informed):
    """Play the oracle; returns (won, turns, every text)."""
    text, info = env.reset(options={"task": task, "informed_oracle": informed})
    texts, turns, done, truncated = [text, task.instruction], 0, False, False
    while not (done or truncated):
        assert info["oracle"] in info["admissible"]
        texts += [info["oracle"], *info["admissible"]]
        text, _, done, truncated, info = env.step(info["oracle"])
        texts.append(text)
        turns += 1
    return done, turns, texts


def test_families_come_in_turn_and_scenes_are_fair(tiny):
    for index in range(240):
        task = tiny.task("train", index)
        assert task.id == f"household/train/{index}"
        assert task.family == tiny.families[index % 6]
        scene = scenes.Scene.from_payload(task.payload)
        assert scene.problems() == []
        assert len(scene.receptacles) == 6
        assert len(scene.objects) <= 4
        assert scene.target.lower() in task.instruction


def test_train_and_val_share_no_seed_and_hardly_a_scene(tiny):
    made = {split: [tiny.task(split, index) for index in range(300)] for split in ("train", "val")}
    seeds = {split: {task.seed for task in tasks} for split, tasks in made.items()}
    assert len(seeds["train"]) == len(seeds["val"]) == 300
    assert not seeds["train"] & seeds["val"]
    games = {split: {json.dumps(task.payload) for task in tasks} for split, tasks in made.items()}
    assert not games["train"] & games["val"]


def test_a_game_is_rebuilt_from_json(tiny):
    task = tiny.task("val", 4)
    assert len(json.dumps(task.payload)) < 500
    copy = Task(task.id, task.family, task.instruction, task.seed, json.loads(json.dumps(task.payload)))
    assert tiny.reset(options={"task": copy}) == tiny.reset(options={"task": task})


def test_a_task_needs_no_engine(tiny):
    """Rank processes list tasks; only workers load TextWorld."""
    import subprocess

    code = (
        "import sys\nfrom sharpo.envs.scenes import make, known_objects\n"
        "assert make('pick', 1, 6, 4, known_objects())\n"
        "assert not {'textworld', 'alfworld', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_checker_finds_what_is_unfair():
    good = scenes.Scene("heat", "Mug", "CounterTop", ("Cabinet", "CounterTop", "Microwave"), (("Mug", 0),), "")
    assert good.problems() == []
    swap = {
        "too few target objects": {"objects": ()},
        "a target lies at its destination already": {"objects": (("Mug", 1),)},
        "nowhere to put the target": {"destination": "Bed"},
        "the target cannot be treated": {"receptacles": ("Cabinet", "CounterTop", "Drawer")},
        "an object lies where it cannot": {"objects": (("Mug", 0), ("Apple", 0))},
    }
    for message, change in swap.items():
        fields = {name: getattr(good, name) for name in good.__slots__} | change
        assert message in scenes.Scene(**fields).problems()


def test_the_informed_expert_wins_every_game_well_within_the_limit(tiny):
    turns = []
    for index in range(60):
        won, count, _ = expert(tiny, tiny.task("val", index), informed=True)
        assert won
        turns.append(count)
    assert sum(turns) / len(turns) < 7


def test_the_exploring_expert_wins_most_games(tiny):
    assert sum(expert(tiny, tiny.task("val", index), informed=False)[0] for index in range(60)) >= 48


def test_the_exploring_expert_uses_only_what_it_was_shown(tiny):
    """Two rooms that differ in where the target lies: as long as they look the same, it acts the same."""
    differed = 0
    for index in range(36):
        task = tiny.task("val", index)
        scene = scenes.Scene.from_payload(task.payload)
        at = next(n for n, (kind, _) in enumerate(scene.objects) if kind == scene.target)
        spots = [
            place
            for place, kind in enumerate(scene.receptacles)
            if scene.target in scenes.rules().holds[kind]
            and place != scene.objects[at][1]
            and kind != scene.destination
        ]
        for place in spots[:1]:
            objects = [*scene.objects[:at], (scene.target, place), *scene.objects[at + 1 :]]
            other = Task(f"{task.id}/{place}", task.family, task.instruction, 0, {**task.payload, "objects": objects})
            twin = Household(receptacles=6, objects=4, object_types=TINY, max_turns=12)
            seen, there = tiny.reset(options={"task": task}), twin.reset(options={"task": other})
            while seen[0] == there[0]:
                assert seen[-1]["oracle"] == there[-1]["oracle"]
                action = seen[-1]["oracle"]
                seen, there = tiny.step(action), twin.step(action)
                if seen[2] or seen[3]:
                    break
            differed += seen[0] != there[0]
    assert differed > 20


@pytest.mark.parametrize("informed", [True, False])
def test_the_expert_recovers_from_random_detours(informed):
    env = Household(receptacles=8, objects=8, max_turns=120)
    rng = random.Random(0)
    for index in range(18):
        _, info = env.reset(options={"task": env.task("train", index), "informed_oracle": informed})
        done = truncated = False
        while not (done or truncated):
            noise = rng.random() < 0.3
            action = rng.choice(info["admissible"]) if noise else info["oracle"]
            _, _, done, truncated, info = env.step(action)
        assert done, env.current_task


def test_every_text_is_covered_by_the_lexicon(tiny):
    from sharpo.policy.tiny import UNKNOWN, word_tokenizer

    tokenizer = word_tokenizer(tiny.lexicon())
    rng = random.Random(0)
    lengths = []
    for index in range(36):
        task = tiny.task("train", index)
        _, _, texts = expert(tiny, task, informed=index % 2 == 0)
        _, info = tiny.reset(options={"task": task})
        for action in [None, "help", *(None for _ in range(8))]:
            given = action or rng.choice(info["admissible"])
            text, *_, info = tiny.step(given)
            texts.append(text)
        for text in set(texts):
            assert UNKNOWN not in tokenizer.encode(text).tokens, text
        lengths.append(len(tokenizer.encode(texts[0]).tokens))
    assert len(tiny.lexicon()) < 230
    assert sum(lengths) / len(lengths) < 25
    assert list(tiny.lexicon()) == sorted(tiny.lexicon(), key=lambda entry: (-len(entry), entry))


def test_bad_knobs_are_refused():
    with pytest.raises(ConfigError, match="receptacles must be 4 to"):
        Household(receptacles=3)
    with pytest.raises(ConfigError, match="objects must be 2 to 20"):
        Household(objects=1)
    with pytest.raises(ConfigError, match="unknown classes \\['Dragon'\\]"):
        Household(object_types=["Mug", "Dragon"])
    with pytest.raises(ConfigError, match="reward must be above 0"):
        Household(reward=0.0)
    with pytest.raises(ConfigError, match=r"env\.object_types=.* allows no task of the families clean, heat, cool"):
        Household(object_types=["Book", "Pen"])


def test_a_missing_or_unsupported_textworld_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "textworld.envs.pddl.logic", None)
    with pytest.raises(ConfigError, match=r"pip install 'sharpo\[alfworld\]'"):
        Household()
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    with pytest.raises(ConfigError, match=r"runs on Python 3.11 and 3.12, not on 3.13"):
        Household()
