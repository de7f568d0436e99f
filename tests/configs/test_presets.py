"""The settings of the relatives: what their yaml says reaches the run, yields to the command line, and never leaks."""

from dataclasses import replace

import pytest

from sharpo.algorithms.sharpo import Balance, Bound
from sharpo.cli import build, read

STEP_OPSD_SETTING = ("stale(10)", "assistant_prefix", "full")


def method(name, *settings):
    return build(read("train", [f"algorithm={name}", *settings]).algorithm, "algorithm")


def teaching(cfg):
    return cfg.teacher, cfg.place, cfg.hint.get("render", "obs_action")


def test_step_opsd_takes_its_teacher_its_place_and_its_hint_and_leaves_none_of_them_behind():
    cfg = read("train", ["algorithm=step_opsd"])
    assert teaching(cfg) == STEP_OPSD_SETTING
    assert cfg.prompt.place == "assistant_prefix"
    assert teaching(read("train", ["algorithm=sharpo"])) == ("shared", "before_instructions", "obs_action")


@pytest.mark.parametrize("name", ["step_opsd", "step_opsd_l005", "sharpo_stepopsd_like"])
def test_the_command_line_has_the_last_word(name):
    assert teaching(read("train", [f"algorithm={name}"])) == STEP_OPSD_SETTING
    cfg = read("train", ["teacher=shared", "place=user_top", "hint=peer", f"algorithm={name}"])
    assert teaching(cfg) == ("shared", "user_top", "obs_action")
    assert "render" not in read("train", [f"algorithm={name}", "hint=skill"]).hint


def test_the_published_values_of_the_relatives():
    rlsd, step, weak = method("rlsd"), method("step_opsd"), method("step_opsd_l005")
    assert (rlsd.lambda_at(0), rlsd.lambda_at(50), rlsd.lambda_at(100), rlsd.alpha) == (0.5, 0.25, 0.0, 0.2)
    assert (step.lambda_at(0), step.lambda_at(50), step.alpha, step.step_norm) == (0.2, 0.0, 0.2, "none")
    assert (step.weight, step.select, step.span) == ("sigmoid", "failed_only", "action")
    assert weak == replace(step, lam=0.05)
    grsd, agent = method("grsd"), method("agent_opsd")
    assert (grsd.lam, grsd.clip, grsd.floor, grsd.span, grsd.select) == (0.5, 0.2, 0.1, "turn", "mixed_groups_only")
    assert (agent.lam, agent.width, agent.prior, agent.span) == (0.5, 0.2, 0.5, "turn")
    assert method("agent_opsd", "algorithm.prior=success_rate").prior == "success_rate"


def test_the_hints_of_the_relatives():
    hints = {name: read("train", [f"algorithm={name}"]).hint for name in ("rlsd", "grsd", "agent_opsd")}
    kinds = {name: hint._target_.rpartition(".")[2] for name, hint in hints.items()}
    assert kinds == {"rlsd": "SkillHint", "grsd": "ContrastHint", "agent_opsd": "PeerHint"}


def test_the_presets_of_sharpo_differ_only_in_what_they_say():
    sharpo = method("sharpo")
    balanced = method("sharpo_b")
    assert balanced == replace(sharpo, lam=0.05, balance=Balance(gamma=1.0))
    assert balanced.balance.factor_clip == 2.0
    assert method("sharpo_turn") == replace(sharpo, span="turn", apply_to="turn")
    assert method("sharpo_stepopsd_like") == replace(
        sharpo, bound=Bound(alpha_clip=0.2), select="failed_only", lambda_schedule="linear_to_zero(50)"
    )
    assert method("sharpo_b", "algorithm.balance.gamma=0.5").balance.gamma == 0.5
