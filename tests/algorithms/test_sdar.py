"""SDAR through the objective: worked numbers, and a gate on the policy of this very micro-batch."""

import torch

from sharpo.algorithms.sdar import Sdar

LOGP, TEACHER = [-1.0, -0.5, -2.0], [-0.8, -0.9, -2.0]


def test_t_sdar_1(toys, assert_golden):
    # gaps [0.2, -0.4, 0]: g = sigma(5 gap) = [0.7311, 0.1192, 0.5]; loss (0.1462 - 0.0477 + 0)/3; gradient -g/3
    batch, scores, output = toys.taught(LOGP, TEACHER)
    out = Sdar(policy_loss=toys.plain, coef=1.0).objective(output, scores, batch)
    assert_golden(out.loss.detach(), 0.0328, printed_decimals=4)
    (slope,) = torch.autograd.grad(out.loss, output.logp)
    assert_golden(slope[0], [0.0, -0.2437, -0.0397, -0.1667, 0.0], printed_decimals=4)
    assert_golden(out.metrics["gate"], 0.4501, printed_decimals=4)  # (0.7311 + 0.1192 + 0.5)/3
    assert_golden(out.metrics["teacher_gap"], -0.2 / 3)
    assert_golden(out.metrics["auxiliary_loss"], 0.0328, printed_decimals=4)


def test_the_gate_sees_the_current_policy_and_not_the_one_that_was_scored(toys, assert_golden):
    batch, scores, output = toys.taught(LOGP, TEACHER, old=[-0.1, -3.0, -0.7])
    out = Sdar(policy_loss=toys.plain, coef=1.0).objective(output, scores, batch)
    (slope,) = torch.autograd.grad(out.loss, output.logp)
    # the same as with old = current; with gates of old log-probabilities it would be
    # sigma(5 * -0.7) = 0.0293, sigma(5 * 2.1) = 1.0000, sigma(5 * -1.3) = 0.0015
    assert_golden(slope[0, 1:4], [-0.2437, -0.0397, -0.1667], printed_decimals=4)
    assert_golden(out.metrics["gate"], 0.4501, printed_decimals=4)


def test_the_published_values(toys):
    assert (Sdar(policy_loss=toys.plain).coef, Sdar(policy_loss=toys.plain).gate_beta) == (0.01, 5.0)
