"""Pulls towards a teacher: worked numbers, naive loops, and the divergence whose gradient each one estimates."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sharpo.functional.distill import gated_surrogate, sampled_policy_gradient, weighted_k3

LOGP, TEACHER = [-1.0, -0.5, -2.0], [-0.8, -0.9, -2.0]  # gaps 0.2, -0.4, 0
nats = st.floats(-30, 0, width=32)


def gradient(function, logp, *more):
    logp = torch.tensor(logp, requires_grad=True)
    loss = function(logp, *more).mean()
    return loss.detach(), torch.autograd.grad(loss, logp)[0]


def _reference_gated(logp, teacher, beta):
    gate = 1 / (1 + math.exp(-beta * (teacher - logp)))
    return gate * (teacher - logp), -gate


def _reference_k3(logp, old, teacher):
    d, ratio = teacher - logp, math.exp(min(logp - old, 10.0))
    k3 = math.exp(min(d, 20.0)) - 1 - d
    slope = (0.0 if logp - old > 10.0 else k3) + 1 - (math.exp(d) if d <= 20.0 else 0.0)
    return ratio * k3, ratio * slope


def test_t_opsd_1_sampled(assert_golden):
    # -a/3 = -[0.2, -0.4, 0]/3; the value is -(0.2 * -1 + -0.4 * -0.5 + 0)/3 = 0
    loss, slope = gradient(sampled_policy_gradient, LOGP, torch.tensor(TEACHER))
    assert_golden(slope, [-0.0667, 0.1333, 0.0], printed_decimals=4)
    assert_golden(loss, 0.0)


def test_t_opsd_1_with_the_half_open_gate(assert_golden):
    # 0.5 (0.2 - 0.4 + 0)/3 = -0.0333; -0.5/3 on each token
    loss, slope = gradient(lambda x: gated_surrogate(x, torch.tensor(TEACHER), 0.0).loss, LOGP)
    assert_golden(loss, -0.0333, printed_decimals=4)
    assert_golden(slope, [-1 / 6] * 3)


def test_t_sdar_1(assert_golden):
    # g = sigma(1), sigma(-2), sigma(0); terms 0.2 g1, -0.4 g2, 0; gradient -g/3
    out = gated_surrogate(torch.tensor(LOGP), torch.tensor(TEACHER), 5.0)
    assert_golden(out.gate, [0.7311, 0.1192, 0.5], printed_decimals=4)
    assert_golden(out.loss, [0.1462, -0.0477, 0.0], printed_decimals=4)
    loss, slope = gradient(lambda x: gated_surrogate(x, torch.tensor(TEACHER), 5.0).loss, LOGP)
    assert_golden(loss, 0.0328, printed_decimals=4)
    assert_golden(slope, [-0.2437, -0.0397, -0.1667], printed_decimals=4)


def test_t_ssd_1(assert_golden):
    # k3 = e^0.2 - 1.2, e^-0.4 - 0.6, 0; gradient (k3 + 1 - e^d)/3 = (-d)/3 when rho = 1
    loss, slope = gradient(weighted_k3, LOGP, torch.tensor(LOGP), torch.tensor(TEACHER))
    assert_golden(weighted_k3(*map(torch.tensor, (LOGP, LOGP, TEACHER))), [0.0214, 0.0703, 0.0], printed_decimals=4)
    assert_golden(loss, 0.0306, printed_decimals=4)
    assert_golden(slope, [-0.2 / 3, 0.4 / 3, 0.0])


@given(logp=nats, old=nats, teacher=nats, beta=st.floats(0, 8, width=32))
def test_values_and_gradients_equal_the_naive_ones(logp, old, teacher, beta):
    x = torch.tensor([logp], dtype=torch.float64, requires_grad=True)
    other = torch.tensor([teacher], dtype=torch.float64)
    for loss, (value, slope) in (
        (gated_surrogate(x, other, beta).loss, _reference_gated(logp, teacher, beta)),
        (sampled_policy_gradient(x, other), (-(teacher - logp) * logp, -(teacher - logp))),
        (weighted_k3(x, torch.tensor([old], dtype=torch.float64), other), _reference_k3(logp, old, teacher)),
    ):
        found = torch.autograd.grad(loss.sum(), x)[0].item()
        assert loss.item() == pytest.approx(value, rel=1e-6, abs=1e-9)
        assert found == pytest.approx(slope, rel=1e-6, abs=1e-9)


@given(logp=nats, teacher=nats, beta=st.floats(0, 8, width=32))
def test_the_gated_term_never_pushes_a_token_down(logp, teacher, beta):
    _, slope = gradient(lambda x: gated_surrogate(x, torch.tensor([teacher]), beta).loss, [logp])
    assert -1 <= slope.item() <= 0


def test_without_a_gate_the_teacher_is_not_in_the_gradient():
    slopes = [
        gradient(lambda x, t=t: gated_surrogate(x, torch.tensor(t), 0.0).loss, LOGP)[1]
        for t in (TEACHER, [-9.0, -0.1, -3.0])
    ]
    assert torch.equal(*slopes)


def reverse_kl_gradient(logits, p_teacher):
    log_p = torch.log_softmax(logits, -1)
    return torch.autograd.grad((log_p.exp() * (log_p - p_teacher.log())).sum(), logits)[0]


@pytest.mark.parametrize("term", ["sampled_pg", "skill_sd"])
def test_on_samples_of_the_policy_the_expected_gradient_is_that_of_the_reverse_divergence(term, assert_golden):
    logits = torch.tensor([0.3, -1.0, 0.8, 0.1], dtype=torch.float64, requires_grad=True)
    p_teacher = torch.tensor([0.1, 0.4, 0.2, 0.3], dtype=torch.float64)
    log_p = torch.log_softmax(logits, -1)
    chance = log_p.detach().exp()  # exact enumeration of the four tokens
    if term == "sampled_pg":
        losses = sampled_policy_gradient(log_p, p_teacher.log())
    else:
        losses = weighted_k3(log_p, log_p, p_teacher.log())
    assert_golden(
        torch.autograd.grad((chance * losses).sum(), logits)[0],
        reverse_kl_gradient(logits.detach().requires_grad_(), p_teacher),
    )


def test_skill_sd_corrects_for_an_older_sampler(assert_golden):
    logits = torch.tensor([0.3, -1.0, 0.8, 0.1], dtype=torch.float64, requires_grad=True)
    old = torch.log_softmax(torch.tensor([0.0, -0.5, 1.0, 0.2], dtype=torch.float64), -1)
    p_teacher = torch.tensor([0.1, 0.4, 0.2, 0.3], dtype=torch.float64)
    losses = weighted_k3(torch.log_softmax(logits, -1), old, p_teacher.log())
    found = torch.autograd.grad((old.exp() * losses).sum(), logits)[0]
    assert_golden(found, reverse_kl_gradient(logits.detach().requires_grad_(), p_teacher))


def test_no_gradient_reaches_the_teacher_or_the_old_policy():
    logp, old, teacher = (torch.tensor(x, requires_grad=True) for x in (LOGP, LOGP, TEACHER))
    total = gated_surrogate(logp, teacher, 5.0).loss + sampled_policy_gradient(logp, teacher)
    (total + weighted_k3(logp, old, teacher)).sum().backward()
    assert (old.grad, teacher.grad) == (None, None)
