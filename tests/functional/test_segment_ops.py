"""Sums by index and back."""

import pytest
import torch

from sharpo.functional.segment_ops import (
    index_size,
    segment_any,
    segment_count,
    segment_extent,
    segment_mean,
    segment_sum,
    spread,
)


def _reference_sum(x, index, size, mask):
    out = [0.0] * size
    for value, slot, counts in zip(
        x.flatten().tolist(), index.flatten().tolist(), mask.flatten().tolist(), strict=True
    ):
        if counts:
            out[slot] += value
    return out


def test_token_sums_equal_a_python_loop_and_ignore_masked_nan(assert_golden):
    generator = torch.Generator().manual_seed(2)
    index = torch.randint(-1, 5, (4, 9), generator=generator)
    mask = (index >= 0) & (torch.rand(4, 9, generator=generator) < 0.7)
    x = torch.randn(4, 9, generator=generator).masked_fill(~mask, float("nan"))
    assert_golden(segment_sum(x, index, 5, mask), _reference_sum(x, index, 5, mask))


def test_mean_count_any_extent(assert_golden):
    x, index = torch.tensor([1.0, 2.0, 4.0, 9.0]), torch.tensor([0, 2, 0, 2])
    mask = torch.tensor([True, True, True, False])
    assert_golden(segment_mean(x, index, 3, mask), [2.5, 0.0, 2.0])  # slot 0: (1+4)/2; slot 1 is empty; slot 2: 2
    assert segment_count(index, 3, mask).tolist() == [2.0, 0.0, 1.0]
    assert segment_any(mask, index, 3).tolist() == [True, False, True]
    low, high = segment_extent(x, index, 3, mask)
    assert (low.tolist(), high.tolist()) == ([1.0, float("inf"), 2.0], [4.0, float("-inf"), 2.0])


def test_spread_is_the_inverse_road_of_sum():
    index = torch.tensor([[-1, 0, 0, 1], [1, 1, -1, -1]])
    mask = index >= 0
    values = torch.tensor([3.0, -2.0])
    tokens = spread(values, index, mask)
    assert tokens.tolist() == [[0.0, 3.0, 3.0, -2.0], [-2.0, -2.0, 0.0, 0.0]]
    assert torch.equal(segment_mean(tokens, index, 2, mask), values)


def test_empty_tables():
    nothing = torch.zeros(0)
    assert index_size(torch.zeros(0, dtype=torch.int64)) == 0
    assert segment_sum(nothing, torch.zeros(0, dtype=torch.int64), 0).shape == (0,)
    index = torch.full((1, 3), -1)
    assert segment_sum(torch.ones(1, 3), index, 0, index >= 0).shape == (0,)
    assert torch.equal(spread(nothing, index, index >= 0), torch.zeros(1, 3))


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="index"):
        segment_sum(torch.ones(3), torch.zeros(2, dtype=torch.int64), 1)
