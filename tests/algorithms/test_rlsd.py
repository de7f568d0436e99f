"""RLSD: the golden vector, a loop reference, which tokens it acts on, wrong knobs."""

import math
from dataclasses import replace

import pytest
import torch

from sharpo.algorithms.rlsd import Rlsd
from sharpo.batch import Scores
from sharpo.errors import ConfigError
from sharpo.functional.token_credit import scored_tokens


def _reference_rlsd(table, batch, scores, lam, alpha):
    out = torch.zeros(batch.action_mask.shape)
    for b in range(out.shape[0]):
        for t in range(out.shape[1]):
            k = int(batch.segment_index[b, t])
            if not batch.action_mask[b, t] or k < 0:
                continue
            a = float(table.base[k])
            w = 1.0
            if table.hinted[k]:
                gap = float(scores.teacher_logp[b, t]) - float(scores.old_logp[b, t])
                w = min(max(math.exp(math.copysign(1.0, a) * gap), 1 - alpha), 1 + alpha)
            out[b, t] = a * ((1 - lam) + lam * w)
    return out


@pytest.mark.parametrize(
    ("a", "expected"),
    [
        # w = [exp(0.2) = 1.2214 -> 1.2, exp(-0.4) = 0.6703 -> 0.8, 1]; A (0.5 + 0.5 w)
        (1.5, [1.65, 1.35, 1.5]),
        # w = [exp(-0.2) = 0.8187, exp(0.4) = 1.4918 -> 1.2, 1]; -1.5 * 0.90937 = -1.3640
        (-1.5, [-1.3640, -1.65, -1.5]),
    ],
)
def test_t_rlsd_1(a, expected, toys, assert_golden):
    table, batch, scores = toys.tokens([[0.2, -0.4, 0.0]], [a])
    algorithm = Rlsd(policy_loss=toys.plain)
    assert algorithm.acts_on_tokens
    effective = toys.credited(batch, scores, table, algorithm).advantages
    assert_golden(effective, [[0.0, *expected]], printed_decimals=4)
    # iteration 50 of 100: lambda 0.25; 1 + 0.25 (w - 1)
    half = toys.credited(batch, scores, table, algorithm, iteration=50).advantages
    assert_golden(half[0, 1:] - a, (torch.tensor(expected) - a) / 2, printed_decimals=4)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("lam", "alpha"), [(0.5, 0.2), (1.0, 0.9), (0.3, 1.0)])
def test_agrees_with_the_loops(seed, lam, alpha, toys):
    table, batch, scores, _ = toys.problem(seed)
    ours = toys.credited(batch, scores, table, Rlsd(policy_loss=toys.plain, lam=lam, alpha=alpha)).advantages
    torch.testing.assert_close(ours, _reference_rlsd(table, batch, scores, lam, alpha), rtol=0, atol=1e-6)


def test_a_hinted_turn_without_an_action_is_reweighted_too(toys):
    table, batch, scores = toys.tokens([[0.1, -0.1]], [1.0])
    table = replace(table, length=torch.tensor([0]), selected=torch.tensor([False]), hinted=torch.tensor([True]))
    batch = replace(batch, span_mask=torch.zeros_like(batch.span_mask))
    effective = toys.credited(batch, scores, table, Rlsd(policy_loss=toys.plain)).advantages
    assert (effective[0, 1:] != 1.0).all()


def test_a_row_that_the_teacher_has_not_read_keeps_the_base(toys):
    table, batch, scores = toys.tokens([[0.1, -0.1], [0.2, 0.2]], [1.0, -1.0])
    unread = scores.teacher_logp.clone()
    unread[1] = float("nan")  # hinted, but left out of the teacher's pass
    effective = toys.credited(batch, Scores(scores.old_logp, unread), table, Rlsd(policy_loss=toys.plain)).advantages
    assert effective[1].tolist() == [0.0, -1.0, -1.0]
    assert (effective[0, 1:] != 1.0).all()


def test_a_token_of_no_segment_takes_no_part():
    index, mask = torch.tensor([[0, -1]]), torch.tensor([[True, True]])
    assert scored_tokens(torch.tensor([True]), index, mask, -torch.ones(1, 2)).tolist() == [[True, False]]


def test_a_broken_teacher_is_loud(toys):
    table, batch, scores = toys.tokens([[0.1, -0.1], [0.2, 0.2]], [1.0, 1.0])
    for value in (float("nan"), float("-inf")):
        spoilt = scores.teacher_logp.clone()
        spoilt[1, 1] = value
        with pytest.raises(ValueError, match="NaN or infinite"):
            toys.credited(batch, Scores(scores.old_logp, spoilt), table, Rlsd(policy_loss=toys.plain))


@pytest.mark.parametrize("alpha", [0.0, 1.5, -0.2])
def test_a_wrong_clip_names_itself(alpha, toys):
    with pytest.raises(ConfigError, match=rf"algorithm.alpha must be in \(0, 1\].*{alpha}"):
        Rlsd(policy_loss=toys.plain, alpha=alpha)
