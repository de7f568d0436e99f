"""ALFWorld's experiments and panels: what they choose, and a plan on a machine without the games."""

import pytest
from sharpo.envs.alfworld import AlfWorld

from sharpo import plan
from sharpo.cli import build, read, train
from sharpo.errors import ConfigError


def test_the_7b_run_is_judged_on_both_validation_splits_whole():
    cfg = read("train", ["experiment=sharpo_alfworld"])
    panels = {name: build(node, name) for name, node in cfg.panel.items()}
    assert {name: (panel.split, panel.tasks, panel.temperature) for name, panel in panels.items()} == {
        "val": ("valid_seen", None, 0.4),
        "unseen": ("valid_unseen", None, 0.4),
    }


def test_the_one_gpu_run_keeps_the_papers_numbers():
    cfg = read("train", ["experiment=sharpo_alfworld_1b5"])
    big = read("train", ["experiment=sharpo_alfworld"])
    assert cfg.trainer.devices * cfg.trainer.accumulate_grad_batches * cfg.data.sizes.micro_rows == 256
    assert (cfg.data.sizes.groups, cfg.data.sizes.group_size) == (16, 8)
    assert cfg.model.path.endswith("1.5B-Instruct")
    assert cfg.policy_loss == big.policy_loss
    assert cfg.env == big.env


def test_the_benchmarks_form_reaches_the_environment():
    cfg = read("train", ["experiment=sharpo_alfworld", "prompt=alfworld_benchmark"])
    env = build(cfg.env, "env")
    assert env.action_format == "benchmark"
    assert env.parse("look").penalty == 0.1
    assert env.parse("<think>a</think><action>fly</action>").penalty == 0.0


def test_every_game_of_a_split_is_played_once_and_an_unknown_split_is_refused(alfworld_games):
    env = AlfWorld(data=str(alfworld_games))
    panel = build(read("train", ["panel=alfworld_seen"]).panel.val, "panel")
    assert sorted(task.id for task in panel.select(env)) == [env.task("valid_seen", i).id for i in range(5)]
    assert env.task("val", 3) == env.task("valid_seen", 3)
    drawn = build(read("train", ["panel=alfworld_paper128"]).panel.val, "panel").select(env)
    assert len(drawn) == 128
    household = build(read("train", []).env, "env")
    with pytest.raises(ConfigError, match=r"Household has no such split, it has train, val; choose"):
        panel.select(household)


def test_a_plan_without_the_games_says_what_is_missing_and_plans_the_rest(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train(read("train", ["experiment=sharpo_alfworld", "debug=plan", f"env.data={tmp_path}"]))
    said = capsys.readouterr().out
    assert "16 of (unknown) per iteration" in said
    assert f"missing      no ALFWorld games in {tmp_path}/train: run `python -m sharpo.data alfworld" in said
    assert "iterations   200" in said


def test_a_plan_counts_a_draw_by_its_workers(alfworld_games, tmp_path):
    cfg = build_plain("experiment=sharpo_alfworld", "panel=alfworld_paper128")
    text = plan.describe(cfg, AlfWorld(data=str(alfworld_games)), tmp_path, {}, build(cfg["algorithm"], "algorithm"))
    assert "val: 128 tasks of valid_seen, 1 episode(s) each at temperature 0.4" in text
    assert "16 of 2 per iteration" in text
    assert "missing" not in text


def build_plain(*overrides):
    from omegaconf import OmegaConf

    return OmegaConf.to_container(read("train", list(overrides)), resolve=True)


def test_the_tiny_run_is_judged_on_all_of_valid_seen_and_both_tiny_runs_take_the_same_games():
    warm, tiny = (read("train", [f"experiment=alfworld_{name}"]) for name in ("warmstart", "tiny"))
    panels = {name: build(node, name) for name, node in tiny.panel.items()}
    assert {name: (panel.split, panel.tasks, panel.temperature) for name, panel in panels.items()} == {
        "val": ("valid_seen", None, 1.0),
        "greedy": ("valid_seen", None, 0.0),
    }
    assert warm.env.train_games == tiny.env.train_games == 512
    assert build(tiny.env, "env").max_turns == build(warm.env, "env").max_turns == 50
    updates = (
        warm.data.sizes.groups
        * warm.data.sizes.group_size
        // (warm.data.sizes.micro_rows * warm.trainer.accumulate_grad_batches)
    )
    assert warm.trainer.max_epochs * updates == warm.schedule.total_updates
