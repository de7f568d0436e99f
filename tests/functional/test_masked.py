"""Masked reductions: values, and that what is masked out never leaks."""

import math

import pytest
import torch

from sharpo.functional.masked import masked_fill, masked_max, masked_mean, masked_min, masked_sum, masked_var

REDUCTIONS = {
    "sum": (masked_sum, lambda v: math.fsum(v)),
    "mean": (masked_mean, lambda v: math.fsum(v) / len(v)),
    "var": (masked_var, lambda v: math.fsum((x - math.fsum(v) / len(v)) ** 2 for x in v) / (len(v) - 1)),
    "min": (masked_min, min),
    "max": (masked_max, max),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_reductions_equal_a_python_loop(name, dim, assert_golden):
    function, reference = REDUCTIONS[name]
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(6, 7, generator=generator, dtype=torch.float64)
    mask = torch.rand(6, 7, generator=generator) < 0.7
    if dim is None:
        expected = reference(x[mask].tolist())
    else:
        rows, masks = (x, mask) if dim == 1 else (x.T, mask.T)
        expected = [reference(row[m].tolist()) for row, m in zip(rows, masks, strict=True)]
    assert_golden(function(x, mask, dim), expected)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_a_masked_poison_changes_no_value_and_no_gradient(name, poison):
    function, _ = REDUCTIONS[name]
    mask = torch.tensor([[True, True, False], [True, False, True]])
    clean = torch.tensor([[1.0, 2.5, 0.0], [-3.0, 0.0, 0.5]], requires_grad=True)
    dirty = clean.detach().masked_fill(~mask, poison).requires_grad_()
    for dim in (None, 1):
        clean.grad = dirty.grad = None
        a, b = function(clean, mask, dim), function(dirty, mask, dim)
        a.sum().backward()
        b.sum().backward()
        assert torch.equal(a, b)
        assert torch.equal(clean.grad, dirty.grad)
        assert torch.equal(dirty.grad[~mask], torch.zeros(2))


def test_nothing_counts():
    x, mask = torch.full((2, 2), float("nan")), torch.zeros(2, 2, dtype=torch.bool)
    assert masked_sum(x, mask).item() == masked_mean(x, mask).item() == masked_var(x, mask).item() == 0.0
    assert masked_min(x, mask).item() == math.inf
    assert masked_max(x, mask).item() == -math.inf


def test_population_variance(assert_golden):
    # values 1, 3: mean 2, squares 1 + 1; /2 = 1 (population), /1 = 2 (unbiased)
    x, mask = torch.tensor([1.0, 3.0, 50.0]), torch.tensor([True, True, False])
    assert_golden(masked_var(x, mask, correction=0), 1.0)
    assert_golden(masked_var(x, mask, correction=1), 2.0)


@pytest.mark.parametrize(
    ("mask", "message"), [(torch.ones(2), "expected dtype bool"), (torch.ones(3, dtype=torch.bool), "expected shape")]
)
def test_a_wrong_mask_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        masked_fill(torch.zeros(2), mask)
