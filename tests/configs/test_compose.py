"""Every experiment with every method composes, stays small, and never sets a method's own knob."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from sharpo import overrides
from sharpo.cli import build, read

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
    [(group, option) for group in ("engine", "strategy", "trainer", "logger", "hint", "panel", "callbacks", "optimizer",
     "policy_loss", "gate", "model", "prompt", "debug") for option in CHOICES[group]],
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
        assert (cfg.trainer.max_epochs, cfg.env.max_turns, cfg.env.invalid_penalty) == (200, turns, 0.1)
        assert (cfg.policy_loss.kl_coef, cfg.policy_loss.entropy_coef, cfg.optimizer.lr) == (0.01, 0.001, 1e-6)
        assert (cfg.panel.val.temperature, cfg.panel.val.tasks, cfg.trainer.check_val_every_n_epoch) == (0.4, 128, 5)
        assert cfg.trainer.precision == "bf16-mixed"
