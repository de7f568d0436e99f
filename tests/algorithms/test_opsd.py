"""OPSD: distillation alone; rewards and advantages change nothing."""

from dataclasses import replace

import pytest
import torch

from sharpo.algorithms.opsd import Opsd
from sharpo.algorithms.policy_loss import PolicyLoss

LOGP, TEACHER = [-1.0, -0.5, -2.0], [-0.8, -0.9, -2.0]


def test_t_opsd_1(toys, assert_golden):
    # the gradient is -a/3 with a = [0.2, -0.4, 0]
    batch, scores, output = toys.taught(LOGP, TEACHER)
    out = Opsd(policy_loss=toys.plain).objective(output, scores, batch)
    assert_golden(torch.autograd.grad(out.loss, output.logp)[0][0], [0.0, -0.2 / 3, 0.4 / 3, 0.0, 0.0])


def test_t_opsd_1_of_the_public_code(toys, assert_golden):
    batch, scores, output = toys.taught(LOGP, TEACHER)
    out = Opsd(policy_loss=toys.plain, loss="repo_surrogate").objective(output, scores, batch)
    assert_golden(out.loss.detach(), -0.0333, printed_decimals=4)
    assert_golden(torch.autograd.grad(out.loss, output.logp)[0][0, 1:4], [-1 / 6] * 3)


def test_the_gate_of_the_public_code_is_sdars(toys, assert_golden):
    batch, scores, output = toys.taught(LOGP, TEACHER)
    algorithm = Opsd(policy_loss=toys.plain, loss="repo_surrogate", gate_beta=5.0)
    assert_golden(algorithm.objective(output, scores, batch).loss.detach(), 0.0328, printed_decimals=4)


@pytest.mark.parametrize("poison", [0.0, float("nan"), float("inf")])
def test_advantages_change_nothing(poison, toys):
    batch, scores, output = toys.taught(LOGP, TEACHER, poison=poison)
    algorithm = Opsd(policy_loss=toys.plain)
    praised = replace(batch, advantages=torch.where(batch.action_mask, 3.0, batch.advantages))
    losses = [algorithm.objective(output, scores, x).loss for x in (batch, praised)]
    slopes = [torch.autograd.grad(loss, output.logp)[0] for loss in losses]
    assert torch.equal(*losses)
    assert torch.equal(*slopes)
    with pytest.raises(ValueError, match="not credited"):
        algorithm.objective(output, scores, replace(batch, advantages=None))


def test_the_kl_term_of_the_policy_loss_stays(toys, assert_golden):
    batch, scores, output = toys.taught(LOGP, TEACHER)
    with_kl = Opsd(policy_loss=PolicyLoss(kl_coef=0.1))
    reference = torch.where(batch.action_mask, output.logp.detach() - 0.2, torch.nan)
    losses = [
        algorithm.objective(output, replace(scores, reference_logp=reference), batch).loss.detach()
        for algorithm in (with_kl, Opsd(policy_loss=toys.plain))
    ]
    # k3 of d = -0.2 is 0.0187 on four trained tokens, divided by three
    assert_golden(losses[0] - losses[1], 0.1 * 4 * (0.8187308 - 0.8) / 3)


def test_defaults(toys):
    algorithm = Opsd(policy_loss=toys.plain)
    assert (algorithm.loss, algorithm.coef) == ("sampled_pg", 1.0)
