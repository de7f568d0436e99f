"""Pulls towards a teacher: worked numbers, naive loops, and the divergence whose gradient each one estimates."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpo.functional.distill import (
    divergence,
    gated_surrogate,
    jensen_shannon,
    likeliest,
    sampled_policy_gradient,
    weighted_k3,
)

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


@settings(deadline=None, max_examples=60)
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


@settings(deadline=None, max_examples=60)
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


P_T, P_S = [0.7, 0.2, 0.1], [0.5, 0.4, 0.1]


def logs(p):
    return torch.tensor([p], dtype=torch.float64).log()


def test_t_opsd_2(assert_golden):
    # the mixture is [0.6, 0.3, 0.1]
    # KL(p_T|M) = 0.7 ln(7/6) + 0.2 ln(2/3) = 0.0268, KL(p_S|M) = 0.5 ln(5/6) + 0.4 ln(4/3) = 0.0239
    teacher, student = logs(P_T), logs(P_S)
    assert_golden(jensen_shannon(teacher, student, 0.5), [0.0254], printed_decimals=4)
    # JSD_b / b -> KL(p_T|p_S) as b -> 0, and JSD_b / (1 - b) -> KL(p_S|p_T) as b -> 1
    assert_golden(jensen_shannon(teacher, student, 1e-6) / 1e-6, [0.0969], printed_decimals=4)
    assert_golden(jensen_shannon(teacher, student, 1 - 1e-6) / 1e-6, [0.1090], printed_decimals=4)


def _reference_jsd(p_t, p_s, beta):
    total = 0.0
    for t, s in zip(p_t, p_s, strict=True):
        m = beta * t + (1 - beta) * s
        total += beta * t * math.log(t / m) + (1 - beta) * s * math.log(s / m)
    return total


def _reference_topk(p_t, p_s, top, beta):
    if top >= len(p_t):
        return _reference_jsd(p_t, p_s, beta)
    kept = sorted(range(len(p_t)), key=lambda v: -p_t[v])[:top]
    rest = [v for v in range(len(p_t)) if v not in kept]
    merged = [[p[v] for v in kept] + [sum(p[v] for v in rest)] for p in (p_t, p_s)]
    return _reference_jsd(*merged, beta)


logit = st.lists(st.floats(-6, 6), min_size=5, max_size=5)


@settings(deadline=None, max_examples=60)
@given(a=logit, b=logit, beta=st.floats(0.01, 0.99), top=st.integers(1, 7))
def test_divergences_equal_the_naive_ones_and_merging_never_adds(a, b, beta, top):
    teacher, student = (torch.log_softmax(torch.tensor([x], dtype=torch.float64), -1) for x in (a, b))
    p_t, p_s = teacher[0].exp().tolist(), student[0].exp().tolist()
    cut, whole = (divergence(student, likeliest(teacher, k), beta).item() for k in (top, 0))
    if len(set(p_t)) == 5 or top >= 5:  # with ties the kept tokens are not determined
        assert cut == pytest.approx(_reference_topk(p_t, p_s, top, beta), abs=1e-9)
    assert whole == pytest.approx(_reference_jsd(p_t, p_s, beta), abs=1e-9)
    assert -1e-12 <= cut <= whole + 1e-9
    assert whole <= -beta * math.log(beta) - (1 - beta) * math.log(1 - beta) + 1e-9


@pytest.mark.parametrize("top", [0, 1, 3])
def test_equal_distributions_have_no_divergence_and_no_gradient(top):
    logits = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
    logp = torch.log_softmax(logits, -1)
    apart = divergence(logp, likeliest(logp.detach(), top), 0.5)
    assert apart.abs().max() < 1e-6
    assert torch.autograd.grad(apart.sum(), logits)[0].abs().max() < 1e-6


@pytest.mark.parametrize("top", [0, 2])
def test_gradcheck_of_the_divergence_and_none_for_the_teacher(top):
    logits = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    other = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    target = likeliest(torch.log_softmax(other, -1), top)
    assert torch.autograd.gradcheck(lambda x: divergence(torch.log_softmax(x, -1), target, 0.4), logits)
    if top == 0:
        divergence(torch.log_softmax(logits, -1), target, 0.4).sum().backward()
        assert other.grad is None


def test_all_but_certain_teachers_stay_finite():
    teacher, student = torch.log_softmax(torch.tensor([[300.0, 0.0, -300.0]]), -1), torch.zeros(1, 3)
    student.requires_grad_()
    for top in (0, 1, 2):
        apart = divergence(torch.log_softmax(student, -1), likeliest(teacher, top), 0.5)
        assert torch.isfinite(apart).all()
        assert torch.isfinite(torch.autograd.grad(apart.sum(), student)[0]).all()


@pytest.mark.parametrize("beta", [0.0, 1.0, -0.5])
def test_a_mixture_of_one_is_refused(beta):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        jensen_shannon(logs(P_T), logs(P_S), beta)
