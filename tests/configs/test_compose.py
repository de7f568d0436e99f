"""Every experiment composes with every kind of method, stays small, and never sets a method's own knob."""

import inspect
import shutil
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from sharpo import overrides, sizes, typed
from sharpo.cli import build, read

CHOICES = overrides.choices()
EXPERIMENTS = CHOICES["experiment"]
ROOT = Path(__file__).resolve().parent.parent.parent / "configs"


def leaves(node) -> int:
    return sum(map(leaves, node.values())) if isinstance(node, dict) else 1


def plain(*arguments):
    return OmegaConf.to_container(read("train", arguments), resolve=True)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_an_experiment_has_at_most_80_leaves_of_the_right_types_and_its_sizes_fit(experiment):
    cfg = plain(f"experiment={experiment}")
    assert leaves(cfg) <= 80
    typed.check(cfg)
    sizes.check_room(cfg)
    sizes.check_shares(cfg["data"]["sizes"]["groups"], cfg["trainer"]["devices"], cfg["trainer"].get("num_nodes", 1))


@pytest.fixture(scope="module")
def methods():
    """Every method with the default experiment: {name: its configuration}."""
    return {name: plain(f"algorithm={name}") for name in CHOICES["algorithm"]}


def changed(cfg, base):
    """The groups outside ``algorithm`` in which a configuration differs from another."""
    timed = ("paths", "logger")  # they hold the time of the run
    return tuple(name for name in sorted(cfg) if name not in ("algorithm", *timed) and cfg[name] != base[name])


def of_each_kind(methods):
    """The last method of every kind: those that choose the same groups for themselves are of one kind."""
    return {changed(cfg, methods["grpo"]): name for name, cfg in methods.items()}


def own(cfg):
    """What a method says itself: its knobs, its hint (the words and skills are the run's), its teacher, its place."""
    knobs = {name: value for name, value in cfg["algorithm"].items() if name != "policy_loss"}
    hint = {name: value for name, value in cfg["hint"].items() if name not in ("wording", "skills")}
    return knobs, hint, cfg["teacher"], cfg["place"], cfg["prompt"]["place"]


@pytest.mark.parametrize("algorithm", CHOICES["algorithm"])
def test_every_method_is_built_from_its_yaml(methods, algorithm):
    cfg = methods[algorithm]
    typed.check(cfg)
    build(cfg["algorithm"], "algorithm")
    assert cfg["algorithm"].get("policy_loss", cfg["policy_loss"]) == cfg["policy_loss"]


def test_there_are_methods_of_four_kinds(methods):
    assert set(of_each_kind(methods)) == {(), ("hint",), ("policy_loss",), ("hint", "place", "prompt", "teacher")}


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_takes_a_method_as_it_is(methods, experiment):
    base = methods["grpo"]["policy_loss"]
    for name in of_each_kind(methods).values():
        alone, cfg = methods[name], plain(f"experiment={experiment}", f"algorithm={name}")
        assert own(cfg) == own(alone), name
        chosen = {key: value for key, value in alone["policy_loss"].items() if base.get(key) != value}
        assert cfg["policy_loss"] == {**cfg["policy_loss"], **chosen}, name
        assert cfg["algorithm"].get("policy_loss", cfg["policy_loss"]) == cfg["policy_loss"]
        build(cfg["algorithm"], "algorithm")


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_an_experiment_never_sets_a_methods_own_knob(experiment):
    raw = OmegaConf.load(ROOT / "experiment" / f"{experiment}.yaml")
    assert "algorithm" not in raw
    assert "policy_loss" not in raw


GROUPS = (
    "engine", "strategy", "trainer", "logger", "hint", "wording", "panel", "callbacks", "optimizer", "policy_loss",
    "gate", "model", "prompt",
)  # fmt: skip


@pytest.mark.parametrize("n", range(max(len(CHOICES[group]) for group in GROUPS)))
def test_every_choice_composes_and_fits_its_part(n):
    """The n-th option of every group at once; the place of the hint reaches every renderer."""
    cfg = plain(*(f"{group}={CHOICES[group][n % len(CHOICES[group])]}" for group in GROUPS), "place=user_top")
    typed.check(cfg)
    assert cfg["prompt"]["place"] == "user_top"


@pytest.mark.parametrize("option", CHOICES["debug"])
def test_every_debug_choice_composes(option):
    typed.check(plain(f"debug={option}"))


def test_the_default_is_the_household_demo():
    assert read("train", []).name == "household_demo"


def test_the_papers_settings_of_the_7b_runs():
    alfworld, webshop = (read("train", [f"experiment=sharpo_{name}"]) for name in ("alfworld", "webshop"))
    for cfg, rows, turns in ((alfworld, 256, 50), (webshop, 64, 15)):
        assert (cfg.data.sizes.groups, cfg.data.sizes.group_size) == (16, 8)
        assert cfg.trainer.devices * cfg.trainer.accumulate_grad_batches * cfg.data.sizes.micro_rows == rows
        assert (cfg.trainer.max_epochs, cfg.env.invalid_penalty) == (200, 0.1)
        assert inspect.signature(typed.resolve(cfg.env._target_)).parameters["max_turns"].default == turns
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


@pytest.mark.parametrize("experiment", ["household_demo", "webshop_warmstart", "sharpo_alfworld_1b5"])
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


def test_the_words_of_the_hint_follow_the_wording_group():
    cfg = read("train", ["experiment=household_demo", "wording.obs_chars=9"])
    assert OmegaConf.to_container(cfg.hint.wording) == {"_target_": "sharpo.hints.attempt.TinyWording", "obs_chars": 9}
    assert cfg.hint.wording == cfg.wording
