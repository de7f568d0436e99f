"""StepOPSD: the golden vector with and without the step normaliser, loop references, rows in several batches."""

import math
from dataclasses import fields, replace

import pytest
import torch

from sharpo.algorithms.grpo import Grpo
from sharpo.algorithms.step_opsd import StepOpsd
from sharpo.batch import Scores
from sharpo.errors import ConfigError
from sharpo.functional.token_credit import equal_step_factor

SPANS = [[0.5, -0.1], [-1.0, -0.4, 0.2]]


def _reference_step_opsd(table, batch, scores, *, lam, alpha, weight, failed_only, clip=None):
    """The loops of the paper's code; ``clip`` switches its normaliser on, on mean |A_eff|."""
    out = torch.zeros(batch.action_mask.shape)
    steps = {}
    for b in range(out.shape[0]):
        for t in range(out.shape[1]):
            k = int(batch.segment_index[b, t])
            if not batch.action_mask[b, t] or k < 0:
                continue
            a = float(table.base[k])
            out[b, t] = a
            if not batch.span_mask[b, t] or not table.selected[k] or (failed_only and table.success[k]):
                continue
            s = math.copysign(1.0, a) * (float(scores.teacher_logp[b, t]) - float(scores.old_logp[b, t]))
            raw = math.exp(s) if weight == "exp" else 2 / (1 + math.exp(-s))
            out[b, t] = (1 - lam) * a + lam * min(max(raw, 1 - alpha), 1 + alpha) * a
            steps.setdefault(int(table.episode[k]), {}).setdefault(k, []).append((b, t))
    for spans in steps.values() if clip is not None else ():
        if len(spans) < 2:
            continue
        means = {k: sum(abs(float(out[b, t])) for b, t in places) / len(places) for k, places in spans.items()}
        target = sum(means.values()) / len(means)
        for k, places in spans.items():
            for b, t in places:
                out[b, t] *= min(max(target / (means[k] + 1e-6), 1 / clip), clip)
    return out


def one_sign_in_an_episode(table):
    """The layout of the paper's code: all turns of an episode share one advantage."""
    return replace(table, base=torch.tensor([-0.7, 0.9, -1.3])[table.episode])


def test_t_step_1(toys, assert_golden):
    # x = -gap: span 1 [-0.5, 0.1], span 2 [1.0, 0.4, -0.2]; 2 sigma(x): [0.7551, 1.0500], [1.4621, 1.1974, 0.9003]
    # clip 0.2: w = [0.8, 1.0500], [1.2, 1.1974, 0.9003]; A_eff = -(0.8 + 0.2 w)
    table, batch, scores = toys.tokens(SPANS, [-1.0, -1.0])
    effective = toys.credited(batch, scores, table, StepOpsd(policy_loss=toys.plain)).advantages
    assert_golden(effective, [[0, -0.96, -1.01, 0], [0, -1.04, -1.0395, -0.9801]], printed_decimals=4)
    # iteration 25 of 50: lambda 0.1
    half = toys.credited(batch, scores, table, StepOpsd(policy_loss=toys.plain), iteration=25).advantages
    assert_golden(half, [[0, -0.98, -1.005, 0], [0, -1.02, -1.0197, -0.9900]], printed_decimals=4)


def test_t_step_1_with_the_normaliser(toys, assert_golden):
    # mean |A_eff|: (0.96 + 1.01)/2 = 0.9850, (1.04 + 1.0395 + 0.9801)/3 = 1.0198; target 1.0024
    # c = [1.0024/0.9850, 1.0024/1.0198] = [1.0177, 0.9829]
    table, batch, scores = toys.tokens(SPANS, [-1.0, -1.0])
    algorithm = StepOpsd(policy_loss=toys.plain, step_norm="equal_step_mean_abs")
    effective = toys.credited(batch, scores, table, algorithm).advantages
    assert_golden(effective, [[0, -0.9770, -1.0279, 0], [0, -1.0222, -1.0217, -0.9633]], printed_decimals=4)
    mean = torch.tensor([0.985, 1.0198])
    factor = equal_step_factor(mean, torch.tensor([True, True]), torch.tensor([0, 0]))
    assert_golden(factor, [1.0177, 0.9829], printed_decimals=4)


def test_exp_weights(toys, assert_golden):
    # exp(x): [0.6065 -> 0.8, 1.1052], [2.7183 -> 1.2, 1.4918 -> 1.2, 0.8187]; -(0.8 + 0.2 w)
    table, batch, scores = toys.tokens(SPANS, [-1.0, -1.0])
    effective = toys.credited(batch, scores, table, StepOpsd(policy_loss=toys.plain, weight="exp")).advantages
    assert_golden(effective, [[0, -0.96, -1.0210, 0], [0, -1.04, -1.04, -0.9637]], printed_decimals=4)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("weight", ["sigmoid", "exp"])
@pytest.mark.parametrize("select", ["failed_only", "has_other_success"])
@pytest.mark.parametrize("clip", [None, 2.0, 1.01])
def test_agrees_with_the_loops(seed, weight, select, clip, toys):
    table, batch, scores, _ = toys.problem(seed)
    table = table if clip is None else one_sign_in_an_episode(table)
    norm = {} if clip is None else {"step_norm": "equal_step_mean_abs", "step_clip": clip}
    algorithm = StepOpsd(policy_loss=toys.plain, lam=0.6, alpha=0.5, weight=weight, select=select, **norm)
    expected = _reference_step_opsd(
        table, batch, scores, lam=0.6, alpha=0.5, weight=weight, failed_only=select == "failed_only", clip=clip
    )
    ours = toys.credited(batch, scores, table, algorithm).advantages
    torch.testing.assert_close(ours, expected, rtol=0, atol=5e-6)


def test_the_normaliser_sees_an_episode_whose_steps_lie_in_several_batches(toys):
    table, batch, scores, _ = toys.problem(3)
    table = one_sign_in_an_episode(table)
    algorithm = StepOpsd(policy_loss=toys.plain, step_norm="equal_step_mean_abs", select="has_other_success")
    together = toys.credited(batch, scores, table, algorithm).advantages
    tensors = [f.name for f in fields(batch) if isinstance(getattr(batch, f.name), torch.Tensor)]
    parts = [
        (
            replace(batch, **{name: getattr(batch, name)[rows] for name in tensors}),
            Scores(scores.old_logp[rows], scores.teacher_logp[rows]),
        )
        for rows in ([0], [1, 2], [3])
    ]
    apart = algorithm.advantages(*zip(*parts, strict=True), table, table.base, 0)
    assert torch.equal(torch.cat(apart), together)
    alone = torch.cat([algorithm.advantages([b], [s], table, table.base, 0)[0] for b, s in parts])
    assert not torch.equal(alone, together)


def test_afterwards_all_steps_of_an_episode_have_the_same_mean_magnitude(toys, assert_golden):
    table, batch, scores = toys.tokens([[0.9, 0.1], [-0.3], [0.2, 0.2, -0.6]], [-1.5] * 3)
    algorithm = StepOpsd(policy_loss=toys.plain, step_norm="equal_step_mean_abs", lam=1.0)
    effective = toys.credited(batch, scores, table, algorithm).advantages
    means = torch.stack([effective[k, 1 : 1 + n].abs().mean() for k, n in enumerate([2, 1, 3])])
    assert_golden(means, [means.mean().item()] * 3)
    assert effective[0, 1] != effective[0, 2]  # tokens of a step still differ


def test_steps_whose_weights_vanish_stay_finite():
    factor = equal_step_factor(torch.zeros(2), torch.tensor([True, True]), torch.tensor([0, 0]))
    assert factor.tolist() == [0.5, 0.5]  # 0 / 1e-6, then the clip


def test_a_step_that_takes_no_part_gets_exactly_1(assert_golden):
    # mean of the usable 0.5 and 1.5 is 1: factors 2 and 2/3; the 9 neither moves it nor is moved
    mean, usable = torch.tensor([0.5, 9.0, 1.5]), torch.tensor([True, False, True])
    assert_golden(equal_step_factor(mean, usable, torch.zeros(3, dtype=torch.int64)), [2.0, 1.0, 2 / 3])


def test_one_usable_step_is_left_alone(toys):
    table, batch, scores = toys.tokens(SPANS, [-1.0, -1.0], selected=[True, False])
    plain = toys.credited(batch, scores, table, StepOpsd(policy_loss=toys.plain)).advantages
    normed = StepOpsd(policy_loss=toys.plain, step_norm="equal_step_mean_abs")
    assert torch.equal(toys.credited(batch, scores, table, normed).advantages, plain)


def test_penalties_are_not_evened_out_and_a_step_without_advantage_takes_no_part(toys):
    table, batch, scores = toys.tokens([[0.0], [0.0, 0.0], [0.7]], [-1.0, -1.4, 0.0])
    algorithm = StepOpsd(policy_loss=toys.plain, step_norm="equal_step_mean_abs", lam=1.0)
    effective = toys.credited(batch, scores, table, algorithm).advantages
    assert effective[:, 1].tolist() == table.base.tolist()
    three, two = (toys.tokens([[0.4], [-0.2], [0.7]][:n], [-1.0, -1.0, 0.0][:n]) for n in (3, 2))
    seen = [toys.credited(batch, scores, table, algorithm).advantages[:2] for table, batch, scores in (three, two)]
    assert torch.equal(*seen)


def test_a_successful_episode_and_a_missing_peer_keep_the_base(toys):
    table, batch, scores = toys.tokens(
        [[0.5, -0.1]] * 3, [-1.0, 1.0, -0.7],
        episode=[0, 1, 2], success=[False, True, False], selected=[True, True, False],
    )  # fmt: skip
    effective = toys.credited(batch, scores, table, StepOpsd(policy_loss=toys.plain)).advantages
    base = toys.credited(batch, scores, table, Grpo(policy_loss=toys.plain)).advantages
    assert torch.equal(effective[1:], base[1:])
    assert not torch.equal(effective[0], base[0])
    report = StepOpsd(policy_loss=toys.plain).report(table, table.base)
    assert report["selected_share"].item() == pytest.approx(1 / 3)


def test_the_thinking_around_a_step_keeps_the_base(toys):
    table, batch, scores = toys.tokens([[0.5, -0.1]], [-1.0])
    batch.span_mask[0, 1] = False
    effective = toys.credited(batch, scores, table, StepOpsd(policy_loss=toys.plain)).advantages
    assert effective[0, 1].item() == -1.0
    assert effective[0, 2].item() != -1.0


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"span": "sentence"}, "algorithm.span must be one of action"),
        ({"weight": "tanh"}, "algorithm.weight must be one of sigmoid, exp; got 'tanh'"),
        ({"step_norm": "equal"}, "algorithm.step_norm must be one of none, equal_step_mean_abs"),
        ({"select": "all"}, "algorithm.select must be one of"),
        ({"alpha": 0.0}, r"algorithm.alpha must be in \(0, 1\]"),
        ({"step_clip": 0.5}, "algorithm.step_clip must be >= 1, got 0.5"),
    ],
)
def test_wrong_knobs_name_themselves(knobs, message, toys):
    with pytest.raises(ConfigError, match=message):
        StepOpsd(policy_loss=toys.plain, **knobs)
