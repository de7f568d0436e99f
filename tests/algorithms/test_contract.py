"""Every algorithm that has a config keeps the contract: instantiates, is pure, finite, and blind to what is masked."""

from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from sharpo.algorithms.base import Algorithm
from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.batch import PolicyOutput, Scores

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
ALGORITHMS = sorted(path.stem for path in (CONFIGS / "algorithm").glob("*.yaml"))
OTHER_LOSSES = sorted({path.stem for path in (CONFIGS / "policy_loss").glob("*.yaml")} - {"paper"})


@cache
def composed(algorithm, policy_loss):
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return compose("train", [f"algorithm={algorithm}", f"policy_loss={policy_loss}"])


def build(algorithm, policy_loss="paper"):
    return instantiate(composed(algorithm, policy_loss).algorithm)


def snapshot(*values):
    return [
        (f.name, x.clone())
        for value in values
        for f in fields(value)
        if isinstance(x := getattr(value, f.name), torch.Tensor)
    ]


def stages(algorithm, toys, problem):
    table, batch, scores, output = problem
    batch = toys.credited(batch, scores, table, algorithm)
    return batch, algorithm.objective(output, scores, batch)


@pytest.mark.parametrize(
    ("name", "policy_loss"),
    # the others: a plain method, one that writes into the loss, a shaper, an auxiliary loss, an expert's
    [(name, "paper") for name in ALGORITHMS]
    + [(name, loss) for name in ("grpo", "dr_grpo", "sharpo", "opsd", "imitation") for loss in OTHER_LOSSES],
)
def test_instantiates_to_plain_values(name, policy_loss):
    algorithm = build(name, policy_loss)
    assert isinstance(algorithm, Algorithm)
    stack = [algorithm]
    while stack:
        value = stack.pop()
        assert len(fields(value)) <= 12, f"{type(value).__name__} has more than 12 knobs"
        for f in fields(value):
            knob = getattr(value, f.name)
            if is_dataclass(knob):
                stack.append(knob)
            else:
                assert type(knob) in (int, float, bool, str, type(None)), f"{f.name} is {type(knob)}"
    assert hash(algorithm) == hash(build(name, policy_loss))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_inputs_stay_unchanged_and_the_result_repeats(name, toys):
    algorithm, problem = build(name), toys.problem(1)
    before = snapshot(*problem)
    _, first = stages(algorithm, toys, problem)
    _, second = stages(algorithm, toys, problem)
    for (label, was), (_, now) in zip(before, snapshot(*problem), strict=True):
        torch.testing.assert_close(now, was, rtol=0, atol=0, equal_nan=True, msg=label)
    assert torch.equal(first.loss, second.loss)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_finite_and_stays_on_scored_tokens(name, seed, toys):
    algorithm, problem = build(name), toys.problem(seed)
    batch, out = stages(algorithm, toys, problem)
    assert out.loss.ndim == 0
    (gradient,) = torch.autograd.grad(out.loss, problem[-1].logp)
    assert torch.isfinite(gradient).all()
    assert gradient[batch.action_mask].any()
    scored = batch.attention if algorithm.scores_context else batch.action_mask
    assert not gradient[~scored].any()
    assert all(x.ndim == 0 and not x.requires_grad and torch.isfinite(x) for x in out.metrics.values())


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -1e30])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_masked_changes_nothing(name, poison, toys):
    algorithm, problem = build(name), toys.problem(2)
    table, batch, scores, output = problem
    outside = ~(batch.attention if algorithm.scores_context else batch.action_mask)

    def spoil(x):
        return x.detach().masked_fill(outside, poison)

    dirty_logp = spoil(output.logp).requires_grad_()
    dirty_output = PolicyOutput(dirty_logp, spoil(output.entropy), toys.divergence(dirty_logp, ~outside, poison))
    dirty_scores = Scores(*(spoil(x) for x in (scores.old_logp, scores.teacher_logp, scores.reference_logp)))
    dirty_batch = replace(
        batch,
        behaviour_logp=spoil(batch.behaviour_logp),
        token_ids=batch.token_ids.masked_fill(~batch.attention, 999),
    )
    clean_credited, clean = stages(algorithm, toys, problem)
    dirty_credited, dirty = stages(algorithm, toys, (table, dirty_batch, dirty_scores, dirty_output))
    assert torch.equal(clean_credited.advantages, dirty_credited.advantages)
    assert torch.equal(clean.loss, dirty.loss)
    gradients = [torch.autograd.grad(x.loss, y.logp)[0] for x, y in ((clean, output), (dirty, dirty_output))]
    assert torch.equal(*gradients)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_advantages_are_one_for_each_turn(name, toys):
    base = build(name).base_advantages(toys.group([(1.0, 0.0)] * 2, [(0.0, 0.1)] * 3, [(0.0, 0.0)]))
    assert base.shape == (6,)
    assert base.dtype == torch.float32
    assert torch.isfinite(base).all()


def test_the_published_values():
    assert build("sharpo").lam == 0.2
    assert build("sharpo_l005").lam == 0.05
    assert build("sharpo_l005") == replace(build("sharpo"), lam=0.05)
    assert build("grpo", "paper").policy_loss == PolicyLoss(kl_coef=0.01, entropy_coef=0.001)
    assert build("grpo", "plain").policy_loss == PolicyLoss()
