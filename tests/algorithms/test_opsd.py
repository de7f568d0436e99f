"""OPSD: distillation alone; rewards and advantages change nothing."""

from dataclasses import replace

import pytest
import torch

from sharpo.algorithms.grpo_opsd import GrpoOpsd
from sharpo.algorithms.opsd import Opsd
from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.errors import ConfigError

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


@pytest.mark.parametrize(("loss", "top"), [("jsd_full", 0), ("jsd_topk", 7)])
def test_a_divergence_is_the_loss_of_the_rows_with_a_hint(loss, top, toys, assert_golden):
    batch, scores, output = toys.taught(LOGP, TEACHER)
    algorithm = Opsd(policy_loss=toys.plain, loss=loss, jsd_beta=0.3, **({"top_k": top} if top else {}))
    assert (algorithm.divergence.top, algorithm.divergence.beta) == (top, 0.3)
    assert algorithm.needs_teacher
    assert not algorithm.teaches_at(0)  # it runs in the update
    apart = torch.where(batch.action_mask, 0.0, torch.nan)
    apart[0, 1:4], apart[1, 1] = torch.tensor([0.1, 0.2, 0.6]), 9.0
    apart.requires_grad_()
    hinted = torch.zeros(2, 8, dtype=torch.bool)
    hinted[0] = True
    batch = replace(batch, teacher_token_ids=hinted.long(), teacher_attention=hinted)
    out = algorithm.objective(replace(output, divergence=apart), scores, batch)
    assert_golden(out.loss.detach(), 0.3)  # (0.1 + 0.2 + 0.6)/3
    assert_golden(torch.autograd.grad(out.loss, apart)[0], [[0.0, 1 / 3, 1 / 3, 1 / 3, 0.0], [0.0] * 5])
    nobody = replace(batch, teacher_token_ids=None, teacher_attention=None)
    assert algorithm.objective(replace(output, divergence=apart), scores, nobody).loss == 0
    with pytest.raises(ValueError, match=r"divergence is None but loss=jsd_.*compare with the teacher"):
        algorithm.objective(output, scores, batch)


def test_only_the_jsd_losses_compare_distributions(toys):
    assert Opsd(policy_loss=toys.plain).divergence is None
    assert Opsd(policy_loss=toys.plain).teaches_at(0)
    assert GrpoOpsd(policy_loss=toys.plain, loss="jsd_full", coef=0.0).divergence is None
    for knob, message in (({"jsd_beta": 1.0}, "jsd_beta must be strictly"), ({"top_k": 0}, "top_k must be >= 1")):
        with pytest.raises(ConfigError, match=message):
            Opsd(policy_loss=toys.plain, **knob)
