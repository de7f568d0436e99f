"""Skill-SD through the objective: worked numbers, and a pull in both directions."""

import math

import torch

from sharpo.algorithms.skill_sd import SkillSd

LOGP, TEACHER = [-1.0, -0.5, -2.0], [-0.8, -0.9, -2.0]


def test_t_ssd_1(toys, assert_golden):
    # k3 = [e^0.2 - 1.2, e^-0.4 - 0.6, 0] = [0.0214, 0.0703, 0], mean 0.0306; gradient -d/3
    batch, scores, output = toys.taught(LOGP, TEACHER)
    out = SkillSd(policy_loss=toys.plain, coef=1.0).objective(output, scores, batch)
    assert_golden(out.loss.detach(), 0.0306, printed_decimals=4)
    (slope,) = torch.autograd.grad(out.loss, output.logp)
    assert_golden(slope[0], [0.0, -0.2 / 3, 0.4 / 3, 0.0, 0.0])  # up where the teacher likes it, down where not


def test_the_ratio_is_to_the_scored_policy(toys, assert_golden):
    # rho = e^(-1 + 1.5) on the first token: 1.6487 * 0.0214 / 3
    batch, scores, output = toys.taught(LOGP, TEACHER, old=[-1.5, -0.5, -2.0])
    out = SkillSd(policy_loss=toys.plain, coef=1.0).objective(output, scores, batch)
    expected = (math.exp(0.5) * (math.exp(0.2) - 1.2) + math.exp(-0.4) - 0.6) / 3
    assert_golden(out.metrics["auxiliary_loss"], expected)


def test_the_published_value(toys):
    assert SkillSd(policy_loss=toys.plain).coef == 0.001
