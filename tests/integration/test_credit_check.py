"""The check of where the credit falls: its arithmetic, its planting, and a whole run on the word game."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sharpo.cli import Parts, read
from sharpo.credit_check import NAMES, area_under_curve, find, report
from sharpo.engine.expert import ExpertEngine
from sharpo.engine.planter import EARLY, PEER, PROBE, Planter
from sharpo.env import Observed
from sharpo.episode import Task
from sharpo.errors import ConfigError, DataError
from sharpo.protocols import Request, TurnView

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = (
    "~experiment", "name=test", "env._target_=word_env.WordEnv", "env.max_turns=3", "wording=tiny", "engine=hf",
    "engine.max_context=128", "data.pool._target_=sharpo.rollout.env_pool.InlineEnvPool", "data.sizes.groups=4",
    "data.sizes.group_size=2", "data.budgets.turn_tokens=4", "model.path.width=32", "model.path.heads=1",
    "model.path.layers=2", "model.path.feed_forward=64",
)  # fmt: skip


@pytest.fixture
def small(tmp_path):
    """Build a run of the word game with a random tiny policy."""
    return lambda *more: Parts(read("train", [*SMALL, f"paths.root={tmp_path}", *more]))


def ask(number, member, turn, admissible=("red", "blue", "green"), oracle="red", task_id="word/val/0"):
    view = TurnView(Task(task_id, "pick", "say red", 0), member, turn, Observed("", admissible, oracle))
    return Request(number, (1,), 4, 1.0, 100 + number, (), view)


def planter(peer_noise=0.0):
    def encode(action):
        return [len(action)]

    return Planter(ExpertEngine(peer_noise, encode), ExpertEngine(encode=encode), encode, seed=3)


def test_area_under_curve(assert_golden):
    # pairs (good, bad): 3>1 3>2 2>1 2=2 0<1 0<2 -> (1+1+1+0.5+0+0)/6
    area = area_under_curve(torch.tensor([3.0, 2.0, 0.0]), torch.tensor([1.0, 2.0]))
    assert_golden(area, 3.5 / 6)
    assert area_under_curve(torch.ones(4), torch.ones(3)) == 0.5


def test_a_planted_segment_that_is_always_lowest_is_found_with_certainty():
    values = torch.tensor([1.1, 0.2, 1.0, 0.9, 1.3, 0.4])
    episode = torch.tensor([7, 7, 7, 9, 9, 9])
    planted = torch.tensor([False, True, False, False, False, True])
    found = find(values, episode, planted)
    assert (found.lowest, found.trials, found.auc) == (2, 2, 1.0)
    missed = find(-values, episode, planted)
    assert (missed.lowest, missed.trials, missed.auc) == (0, 2, 0.0)


def test_values_that_are_all_equal_find_no_more_than_chance():
    # 8 episodes of 4 equal values: the planted one has a quarter of each tie
    found = find(torch.ones(32), torch.arange(8).repeat_interleave(4), torch.arange(32) % 4 == 2)
    assert (found.lowest, found.trials, found.auc) == (2, 8, 0.5)


def test_the_probe_errs_once_and_the_peer_never():
    engine = planter()
    turn = engine.turn("word/val/0")
    for number in range(2 * EARLY):
        engine.submit(ask(number, (PEER, PROBE)[number % 2], number // 2))
    done = {completion.id: completion.token_ids for completion in engine.poll()}
    wrong = [number for number, ids in done.items() if ids != (len("red"),)]
    assert wrong == [2 * turn + PROBE]
    assert engine.poll() == []


def test_the_planted_turns_differ_between_tasks():
    engine = planter()
    assert {engine.turn(f"word/val/{index}") for index in range(40)} == set(range(EARLY))


def test_nothing_to_plant_is_said():
    engine = planter()
    with pytest.raises(DataError, match="lists no other action to plant"):
        engine.submit(ask(0, PROBE, engine.turn("word/val/0"), admissible=("red",)))


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A report on a random policy's own play."""
    parts = Parts(read("train", [*SMALL, f"paths.root={tmp_path_factory.mktemp('played')}"]))
    return report(parts, 12, "policy", seed=0)


@pytest.mark.parametrize("play", ["expert", "policy"])
def test_the_numbers_of_a_report_agree(small, played, play):
    parts = small()
    result = played if play == "policy" else report(parts, 12, play, seed=0)
    # an expert's probe ends after the planted turn and the right one; a random policy may play on
    assert 2 <= result.episodes <= 12
    assert set(result.found) == set(NAMES)
    for found in result.found.values():
        assert found.trials == result.episodes
        assert 0 <= found.lowest <= found.trials
        assert 0.0 <= found.auc <= 1.0
    if play == "expert":
        assert result.chance == pytest.approx(0.5)  # every probe has exactly two segments
        assert str(result) == str(report(parts, 12, play, seed=0)), "the same seed gives the same report"
    else:
        assert 1 / 3 <= result.chance <= 1.0
    assert f"{result.episodes} trajectories" in str(result)


def test_weight_and_gap_order_the_segments_of_an_episode_alike(played):
    """With base advantage 1 the weight grows with the gap inside a trajectory, so both have the same lowest one."""
    assert played.found["weight"].lowest == played.found["gap"].lowest


@pytest.mark.parametrize(
    ("more", "tasks", "message"),
    [
        (("algorithm=grpo",), 4, "Grpo has no teacher; choose algorithm=sharpo"),
        (("algorithm.lam=0",), 4, "Sharpo has no teacher"),
        ((), 1, "--tasks must be at least 2"),
        ((), 13, "the environment has 12 unseen tasks"),
    ],
)
def test_what_cannot_be_checked_is_refused(small, more, tasks, message):
    with pytest.raises(ConfigError, match=message):
        report(small(*more), tasks, "expert", seed=0)


@pytest.mark.integration
def test_the_command_prints_a_tidy_report_and_writes_json(tmp_path):
    program = [sys.executable, "-m", "sharpo.credit_check"]
    pool = "data.pool._target_=sharpo.rollout.env_pool.InlineEnvPool"
    chosen = ["experiment=household_demo", "engine=hf", "model=tiny", f"paths.root={tmp_path}", pool]
    done = subprocess.run(
        [*program, chosen[0], "--tasks", "12", *chosen[1:], "--json", str(tmp_path / "out.json")],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].endswith("played by the expert, one needless action planted in each")
    assert [line[2:36].strip() for line in lines[2:7]] == [*NAMES.values(), "chance"]
    saved = json.loads((tmp_path / "out.json").read_text())
    assert saved["found"]["weight"]["trials"] == saved["episodes"] > 2
