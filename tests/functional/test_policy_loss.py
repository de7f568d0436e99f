"""Clipped surrogate and KL estimators: golden values, a loop reference, and gradients by exact enumeration."""

import math

import pytest
import torch

from sharpo.functional.policy_loss import clipped_surrogate, kl_estimate


def test_t_loss_1(assert_golden):
    # A = 1: max(-1.5, -1.2) = -1.2; max(-0.7, -0.8) = -0.7
    # A = -1: max(0.5, 0.8) = 0.8; max(4.0, 1.2) = 4.0, then min(4.0, 3.0) = 3.0
    ratio = torch.tensor([1.5, 0.7, 0.5, 4.0])
    out = clipped_surrogate(ratio.log(), torch.zeros(4), torch.tensor([1.0, 1.0, -1.0, -1.0]))
    assert_golden(out.loss, [-1.2, -0.7, 0.8, 3.0])
    assert_golden(out.loss.mean(), 0.4750)
    assert_golden(out.ratio, ratio)
    assert out.clipped.tolist() == [True, False, True, False]
    assert out.dual_clipped.tolist() == [False, False, False, True]


def test_without_dual_clip(assert_golden):
    out = clipped_surrogate(torch.tensor([4.0]).log(), torch.zeros(1), torch.tensor([-1.0]), dual_clip=None)
    assert_golden(out.loss, [4.0])
    assert not out.dual_clipped.any()


def _reference_surrogate(log_ratio, a, low, high, c):
    r = math.exp(log_ratio)
    loss = max(-a * r, -a * min(max(r, 1 - low), 1 + high))
    return min(loss, -c * a) if a < 0 else loss


def test_random_inputs_equal_a_python_loop(assert_golden):
    generator = torch.Generator().manual_seed(4)
    new, old, a = torch.randn(3, 200, generator=generator, dtype=torch.float64)
    out = clipped_surrogate(new, old, a, clip_low=0.1, clip_high=0.3, dual_clip=2.0)
    triples = zip(new.tolist(), old.tolist(), a.tolist(), strict=True)
    expected = [_reference_surrogate(x - y, z, 0.1, 0.3, 2.0) for x, y, z in triples]
    assert_golden(out.loss, expected)


def test_gradient_only_where_no_clip_decides(assert_golden):
    # inside: dL/dlogp = -A r; clipped and dual-clipped tokens get none
    logp = torch.tensor([1.1, 1.5, 0.5, 4.0]).log().requires_grad_()
    clipped_surrogate(logp, torch.zeros(4), torch.tensor([1.0, 1.0, -1.0, -1.0])).loss.sum().backward()
    assert_golden(logp.grad, [-1.1, 0.0, 0.0, 0.0])


def test_nothing_but_the_current_policy_gets_gradient():
    old, a = torch.zeros(2, requires_grad=True), torch.ones(2, requires_grad=True)
    logp = torch.zeros(2, requires_grad=True)
    (clipped_surrogate(logp, old, a).loss.sum() + kl_estimate(logp, old).sum()).backward()
    assert old.grad is None
    assert a.grad is None
    assert logp.grad is not None


def test_a_far_policy_stays_finite():
    out = clipped_surrogate(torch.tensor([500.0, -500.0]), torch.zeros(2), torch.tensor([-1.0, 1.0]), dual_clip=None)
    assert torch.isfinite(out.loss).all()


def test_t_kl(assert_golden):
    # d = ref - cur = [-0.2, 0.1]: e^-0.2 + 0.2 - 1 = 0.0187; e^0.1 - 0.1 - 1 = 0.0052. k1 = -d. k2 = d^2/2
    cur, ref = torch.tensor([-1.0, -0.5]), torch.tensor([-1.2, -0.4])
    assert_golden(kl_estimate(cur, ref, "k3"), [0.0187, 0.0052], printed_decimals=4)
    assert_golden(kl_estimate(cur, ref, "k1"), [0.2, -0.1])
    assert_golden(kl_estimate(cur, ref, "k2"), [0.02, 0.005])


def test_kl_is_bounded_far_away(assert_golden):
    # d clamped to 10 and -10: e^10 - 11 = 22015.4658, e^-10 + 9; fp64, so that the absolute tolerance means something
    cur, ref = torch.tensor([[-50.0, 0.0], [0.0, -50.0]], dtype=torch.float64)
    assert_golden(kl_estimate(cur, ref, "k3"), [math.exp(10) - 11, math.exp(-10) + 9])


LOGITS = torch.tensor([0.3, -1.1, 0.8], dtype=torch.float64)
REFERENCE = torch.log_softmax(torch.tensor([-0.5, 0.4, 0.2], dtype=torch.float64), 0)


def _exact(estimator):
    """Expected value and expected loss gradient over the three tokens, sampling weights held fixed."""
    logits = LOGITS.clone().requires_grad_()
    logp = torch.log_softmax(logits, 0)
    per_token = kl_estimate(logp, REFERENCE, estimator)
    value = (logp.detach().exp() * per_token).sum()
    (gradient,) = torch.autograd.grad(value, logits)
    return value.detach(), gradient


def _kl_gradient(forward):
    logits = LOGITS.clone().requires_grad_()
    logp = torch.log_softmax(logits, 0)
    kl = (REFERENCE.exp() * (REFERENCE - logp)).sum() if forward else (logp.exp() * (logp - REFERENCE)).sum()
    (gradient,) = torch.autograd.grad(kl, logits)
    return kl.detach(), gradient


def test_estimators_values_by_enumeration(assert_golden):
    kl, _ = _kl_gradient(forward=False)
    assert_golden(_exact("k1")[0], kl)
    assert_golden(_exact("k3")[0], kl)
    assert abs(_exact("k2")[0] - kl) > 0.01  # biased


def test_estimators_gradients_by_enumeration(assert_golden):
    _, reverse = _kl_gradient(forward=False)
    _, forward = _kl_gradient(forward=True)
    assert (reverse - forward).abs().max() > 0.05  # the toy tells the directions apart
    assert_golden(_exact("k1")[1], torch.zeros(3, dtype=torch.float64))  # no pull at all
    assert_golden(_exact("k2")[1], reverse)  # the right gradient
    assert_golden(_exact("k3")[1], forward)  # the other direction's


def test_unknown_estimator_is_refused():
    with pytest.raises(ValueError, match="kl_estimator must be k1, k2 or k3"):
        kl_estimate(torch.zeros(1), torch.zeros(1), "k4")
