"""GRPO: base advantages of groups, the objective's values, gradients and metrics."""

import math
from dataclasses import replace

import pytest
import torch

from sharpo.algorithms.baseline import Baseline
from sharpo.algorithms.grpo import Grpo
from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.batch import Batch, PolicyOutput, Scores, Update
from sharpo.errors import ConfigError


def test_t_grpo_1_from_episodes(toys, assert_golden):
    # T1: three turns, the last one pays 10; T2: two turns, nothing, the second one is unparsable (penalty 0.1)
    group = toys.group([(0.0, 0.0), (0.0, 0.0), (10.0, 0.0)], [(0.0, 0.0), (0.0, 0.1)])
    # S = [10, 10, 10, 0, -0.1]: mu 5.98, sigma 5.5047 (rows); mu 5, sigma 7.0711 (trajectories)
    rows = Grpo(policy_loss=toys.plain).base_advantages(group)
    assert_golden(rows, [0.7303, 0.7303, 0.7303, -1.0863, -1.1045], printed_decimals=4)
    episodes = Grpo(policy_loss=toys.plain, baseline=Baseline(scope="trajectories")).base_advantages(group)
    assert_golden(episodes, [0.7071, 0.7071, 0.7071, -0.7071, -0.7212], printed_decimals=4)
    plain = Grpo(policy_loss=toys.plain, baseline=Baseline(norm_by_std=False)).base_advantages(group)
    assert_golden(plain, [4.02, 4.02, 4.02, -5.98, -6.08])


def test_t_grpo_2_from_episodes(toys, assert_golden):
    group = toys.group(*([[(10.0, 0.0)]] * 2 + [[(0.0, 0.0)]] * 6))
    expected = [1.6202, 1.6202] + [-0.5401] * 6  # sigma = sqrt(150/7) = 4.6291
    assert_golden(Grpo(policy_loss=toys.plain).base_advantages(group), expected, printed_decimals=4)


def test_equal_returns_train_nothing(toys):
    group = toys.group([(0.1, 0.0)] * 3, [(0.1, 0.0)] * 3)
    assert torch.equal(Grpo(policy_loss=toys.plain).base_advantages(group), torch.zeros(6))


def toy_batch(advantages, poison=0.0):
    """One row: a prompt token, four action tokens, one padding token."""
    mask = torch.tensor([[False, True, True, True, True, False]])
    outside = torch.full((1, 6), poison)
    return Batch(
        token_ids=torch.zeros(1, 6, dtype=torch.int64), attention=torch.tensor([[True] * 5 + [False]]),
        action_mask=mask, span_mask=mask, segment_index=torch.where(mask, 0, -1), behaviour_logp=outside,
        update=Update(tokens=4, sequences=1), policy_version=0,
        advantages=None if advantages is None else outside.masked_scatter(mask, torch.tensor(advantages)),
    )  # fmt: skip


def toy_logp(values, poison=0.0):
    mask = torch.tensor([[False, True, True, True, True, False]])
    return torch.full((1, 6), poison).masked_scatter(mask, torch.as_tensor(values))


RATIO = torch.tensor([1.5, 0.7, 0.5, 4.0])
SIGNS = [1.0, 1.0, -1.0, -1.0]


@pytest.mark.parametrize("poison", [0.0, float("nan"), float("inf")])
def test_t_loss_1_through_the_objective(toys, poison, assert_golden):
    # per token [-1.2, -0.7, 0.8, 3.0], mean 0.4750; what lies outside the mask changes nothing
    logp = toy_logp(RATIO.log(), poison).requires_grad_()
    out = Grpo(policy_loss=toys.plain).objective(
        PolicyOutput(logp), Scores(toy_logp([0.0] * 4, poison)), toy_batch(SIGNS, poison=poison)
    )
    assert_golden(out.loss, 0.4750)
    (gradient,) = torch.autograd.grad(out.loss, logp)
    # -A r / 4 where no clip decides: only the second token, -0.7/4
    assert_golden(gradient, [[0.0, 0.0, -0.175, 0.0, 0.0, 0.0]])
    expected = {
        "clip_fraction": 0.5,
        "dual_clip_fraction": 0.25,
        "ratio_mean": 6.7 / 4,
        "approx_kl": sum(r - 1 - math.log(r) for r in RATIO.tolist()) / 4,
    }
    assert set(out.metrics) == set(expected)
    for name, value in expected.items():
        assert_golden(out.metrics[name], value)
        assert not out.metrics[name].requires_grad


def test_kl_and_entropy_terms(assert_golden):
    # on policy, A = 0: loss = 0.5 * mean k3 - 0.1 * mean H; d = ref - cur = [-0.2, 0.1, 0, 0]
    loss = PolicyLoss(kl_coef=0.5, entropy_coef=0.1)
    logp, reference = torch.tensor([-1.0, -0.5, -1.0, -1.0]), torch.tensor([-1.2, -0.4, -1.0, -1.0])
    k3 = (math.exp(-0.2) - 0.8 + math.exp(0.1) - 1.1) / 4
    algorithm = Grpo(policy_loss=loss)
    assert algorithm.needs_reference
    assert algorithm.needs_entropy
    out = algorithm.objective(
        PolicyOutput(toy_logp(logp), toy_logp([0.4, 0.6, 0.8, 0.2], float("nan"))),
        Scores(toy_logp(logp), reference_logp=toy_logp(reference, float("nan"))),
        toy_batch([0.0] * 4),
    )
    assert_golden(out.loss, 0.5 * k3 - 0.1 * 0.5)
    assert_golden(out.metrics["kl_reference"], k3)
    assert_golden(out.metrics["entropy"], 0.5)


def test_plain_needs_neither_reference_nor_entropy(toys):
    algorithm = Grpo(policy_loss=toys.plain)
    assert (algorithm.needs_reference, algorithm.needs_entropy, algorithm.needs_teacher) == (False, False, False)
    assert algorithm.needs_scores


def test_metrics_sum_to_the_update_value_whatever_the_cut(toys, assert_golden):
    table, batch, scores, output = toys.problem()
    algorithm = Grpo(policy_loss=PolicyLoss(kl_coef=0.1, entropy_coef=0.1))
    batch = toys.credited(batch, scores, table, algorithm)
    whole = algorithm.objective(output, scores, batch)

    def part(rows, averaging):
        def cut(x):
            return type(x)(
                **{name: value[rows] if isinstance(value, torch.Tensor) else value for name, value in vars(x).items()}
            )

        piece = replace(cut(batch), update=replace(batch.update, averaging=averaging))
        return algorithm.objective(cut(output), cut(scores), piece)

    parts = [part(slice(i, i + 1), 4) for i in range(4)]
    assert_golden(sum(p.loss for p in parts).detach() / 4, whole.loss.detach())
    for name, value in whole.metrics.items():
        assert_golden(sum(p.metrics[name] for p in parts), value)


def test_a_batch_that_was_not_credited_is_refused(toys):
    with pytest.raises(ValueError, match=r"Batch\.advantages is None"):
        Grpo(policy_loss=toys.plain).objective(
            PolicyOutput(toy_logp([0.0] * 4)), Scores(toy_logp([0.0] * 4)), toy_batch(None)
        )


@pytest.mark.parametrize(
    ("knobs", "message"),
    [({"kl_coef": 0.1}, "Scores.reference_logp is None"), ({"entropy_coef": 0.1}, "PolicyOutput.entropy is None")],
)
def test_missing_log_probabilities_are_refused(knobs, message):
    with pytest.raises(ValueError, match=message):
        Grpo(policy_loss=PolicyLoss(**knobs)).objective(
            PolicyOutput(toy_logp([0.0] * 4)), Scores(toy_logp([0.0] * 4)), toy_batch(SIGNS)
        )


@pytest.mark.parametrize(("name", "value"), [("scope", "episodes"), ("correction", 2), ("min_spread", -1.0)])
def test_wrong_knobs_name_themselves(name, value):
    with pytest.raises(ConfigError, match=f"algorithm.baseline.{name}.*{value}"):
        Baseline(**{name: value})


@pytest.mark.parametrize(
    ("min_spread", "returns", "kept"),
    [
        (None, (1.0, 1.0), True),
        (0.0, (1.0, 1.0), False),
        (0.0, (1.0, 1.0 + 1e-9), True),
        (1e-6, (1.0, 1.0 + 1e-9), False),
        (1e-6, (0.0, 1.0), True),
    ],
)
def test_a_group_whose_raw_returns_are_alike_can_be_left_out(toys, min_spread, returns, kept):
    group = toys.group(*([(reward, 0.0)] for reward in returns))
    assert Grpo(policy_loss=toys.plain, baseline=Baseline(min_spread=min_spread)).keeps(group) is kept


def test_a_penalty_does_not_make_a_group_different(toys):
    # the same raw returns: the filter looks at returns, the advantages at returns less penalties
    group = toys.group([(0.0, 0.0)] * 2, [(0.0, 0.1)] * 2)
    algorithm = Grpo(policy_loss=toys.plain, baseline=Baseline(min_spread=0.0))
    assert not algorithm.keeps(group)
    assert algorithm.base_advantages(group).abs().min() > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clip_low", 1.5), ("clip_high", 0.0), ("dual_clip", 1.0), ("kl_coef", -1.0), ("entropy_coef", -0.1),
        ("kl_estimator", "k4"), ("aggregation", "mean"), ("norm_length", 7),
    ],
)  # fmt: skip
def test_wrong_policy_loss_knobs_name_themselves(name, value):
    with pytest.raises(ConfigError, match=rf"policy_loss\..*{name}.*{value}"):
        PolicyLoss(**{name: value})


def test_sum_norm_needs_its_length():
    with pytest.raises(ConfigError, match="norm_length"):
        PolicyLoss(aggregation="seq-mean-token-sum-norm")
    assert PolicyLoss(aggregation="seq-mean-token-sum-norm", norm_length=512).norm_length == 512
