"""Every experiment with every method composes, stays small, and never sets a method's own knob."""

import inspect
import shutil
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from sharpo import overrides
from sharpo.cli import build, read
from sharpo.typed import resolve

CHOICES = overrides.choices()
EXPERIMENTS = CHOICES["experiment"]
ROOT = Path(__file__).resolve().parent.parent.parent / "configs"


def leaves(node) -> int:
    return sum(map(leaves, node.values())) if isinstance(node, dict) else 1


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_composed_experiment_has_at_most_80_leaves(experiment):
    cfg = read("train", [f"experiment={experiment}"])
    assert leaves(OmegaConf.to_container(cfg, resolve=True)) <= 80


@pytest.mark.parametrize("experiment", EXPERIMENTS)
@pytest.mark.parametrize("algorithm", CHOICES["algorithm"])
def test_every_experiment_takes_every_algorithm(experiment, algorithm):
    cfg = read("train", [f"experiment={experiment}", f"algorithm={algorithm}"])
    method = build(cfg.algorithm, "algorithm")
    assert type(method).__name__ == cfg.algorithm._target_.rpartition(".")[2]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_an_experiment_never_sets_a_methods_own_knob(experiment):
    raw = OmegaConf.load(ROOT / "experiment" / f"{experiment}.yaml")
    assert "algorithm" not in raw
    assert "policy_loss" not in raw


@pytest.mark.parametrize(
    ("group", "option"),
    [(group, option) for group in ("engine", "strategy", "trainer", "logger", "hint", "wording", "panel", "callbacks",
     "optimizer", "policy_loss", "gate", "model", "prompt", "debug") for option in CHOICES[group]],
)  # fmt: skip
def test_every_choice_composes(group, option):
    read("train", [f"{group}={option}"])


def test_the_default_is_the_household_demo():
    assert read("train", []).name == "household_demo"


def test_the_papers_settings_of_the_7b_runs():
    alfworld, webshop = (read("train", [f"experiment=sharpo_{name}"]) for name in ("alfworld", "webshop"))
    for cfg, rows, turns in ((alfworld, 256, 50), (webshop, 64, 15)):
        assert (cfg.data.sizes.groups, cfg.data.sizes.group_size) == (16, 8)
        assert cfg.trainer.devices * cfg.trainer.accumulate_grad_batches * cfg.data.sizes.micro_rows == rows
        assert (cfg.trainer.max_epochs, cfg.env.invalid_penalty) == (200, 0.1)
        assert inspect.signature(resolve(cfg.env._target_)).parameters["max_turns"].default == turns
        assert (cfg.policy_loss.kl_coef, cfg.policy_loss.entropy_coef, cfg.optimizer.lr) == (0.01, 0.001, 1e-6)
        assert (cfg.panel.val.temperature, cfg.trainer.check_val_every_n_epoch) == (0.4, 5)
        # ALFWorld: both validation splits whole; WebShop: the paper's 128
        assert cfg.panel.val.get("tasks") == (None if cfg is alfworld else 128)
        assert cfg.trainer.precision == "bf16-mixed"


def test_the_familys_settings_of_search_questions():
    cfg = read("train", ["experiment=sharpo_searchqa"])
    assert (cfg.data.sizes.groups, cfg.trainer.max_epochs, cfg.env.invalid_penalty) == (128, 150, 0.01)
    assert (cfg.policy_loss.kl_coef, cfg.optimizer.lr, cfg.prompt.history) == (0.001, 1e-6, 4)
    assert cfg.trainer.devices * cfg.trainer.accumulate_grad_batches * cfg.data.sizes.micro_rows == 256
    assert (cfg.prompt.most_tokens, cfg.engine.max_context) == (4096, 8192)
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=cfg.optimizer.lr)
    rate = build(cfg.schedule, "schedule", partial=True)(optimizer).lr_lambdas[0]
    assert [rate(n) for n in (0, 89, 179, 180, 1800, 9999)] == [1 / 180, 0.5, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_method_may_choose_its_hint_its_place_and_its_teacher_and_the_user_has_the_last_word(tmp_path, experiment):
    shutil.copytree(ROOT, tmp_path / "configs", ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "configs" / "algorithm"
    (folder / "plainly.yaml").write_text("defaults:\n  - override /hint@_global_.hint: none\n\n_target_: a.B\n")
    (folder / "wholly.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /hint: peer_shortest\n"
        "teacher: stale(10)\nplace: assistant_prefix\nalgorithm:\n  _target_: a.B\n"
    )
    (folder / "variant.yaml").write_text(
        "# @package _global_\ndefaults:\n  - wholly\n  - _self_\nalgorithm:\n  lam: 0.1\n"
    )
    with initialize_config_dir(version_base="1.3", config_dir=str(tmp_path / "configs")):

        def of(*chosen):
            cfg = compose("train", overrides=[f"experiment={experiment}", *chosen])
            return cfg.hint.get("pick") or cfg.hint._target_.rpartition(".")[2], cfg.teacher, cfg.place

        assert of("algorithm=plainly") == ("NoHint", "shared", "before_instructions")
        assert of("algorithm=wholly") == ("shortest", "stale(10)", "assistant_prefix")
        assert of("algorithm=variant") == ("shortest", "stale(10)", "assistant_prefix")
        assert of("algorithm=plainly", "hint=peer") == ("PeerHint", "shared", "before_instructions")
        users = ("hint=peer", "place=user_top", "teacher=frozen")
        assert of("algorithm=wholly", *users) == ("PeerHint", "frozen", "user_top")


@pytest.mark.parametrize("prompt", CHOICES["prompt"])
def test_the_place_of_the_hint_reaches_the_renderer(prompt):
    assert read("train", [f"prompt={prompt}", "place=user_top"]).prompt.place == "user_top"


def test_the_words_of_the_hint_follow_the_wording_group():
    cfg = read("train", ["experiment=household_demo", "wording.obs_chars=9"])
    assert OmegaConf.to_container(cfg.hint.wording) == {"_target_": "sharpo.hints.attempt.TinyWording", "obs_chars": 9}
    assert cfg.hint.wording == cfg.wording
