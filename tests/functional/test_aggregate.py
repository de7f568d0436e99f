"""Aggregation: golden values, and one gradient for any cut into micro-batches and ranks."""

import pytest
import torch

from sharpo.functional.aggregate import NORM_LENGTH_MODES, aggregate, token_share

X = torch.tensor([[1.0, 2.0, 3.0, 99.0], [4.0, 99.0, 99.0, 99.0]])
MASK = torch.tensor([[True, True, True, False], [True, False, False, False]])
GOLDEN = {
    "token-mean": 2.5,  # (1+2+3+4)/4
    "seq-mean-token-sum": 5.0,  # (6 + 4)/2
    "seq-mean-token-mean": 3.0,  # (6/3 + 4/1)/2
    "seq-mean-token-sum-norm": 2.5,  # (6 + 4)/L, L = 4
    "seq-mean-token-const": 1.25,  # (6/L + 4/L)/2
}


def norm_length(mode):
    return 4 if mode in NORM_LENGTH_MODES else None


@pytest.mark.parametrize("mode", GOLDEN)
def test_t_loss_2(mode, assert_golden):
    assert_golden(aggregate(X, MASK, tokens=4, sequences=2, mode=mode, norm_length=norm_length(mode)), GOLDEN[mode])


@pytest.mark.parametrize("mode", GOLDEN)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_the_gradient_does_not_depend_on_micro_batches_or_ranks(mode, ranks, micro_batches, assert_golden):
    generator = torch.Generator().manual_seed(7)
    theta = torch.randn(5, generator=generator, dtype=torch.float64)
    features = torch.randn(8, 6, 5, generator=generator, dtype=torch.float64)
    mask = torch.rand(8, 6, generator=generator) < 0.6
    mask[3] = False  # a zero-weight row
    counts = {"tokens": int(mask.sum()), "sequences": int(mask.any(1).sum())}

    def gradient(rows, averaging):
        leaf = theta.clone().requires_grad_()
        x = torch.tanh(features[rows] @ leaf)
        aggregate(x, mask[rows], **counts, averaging=averaging, mode=mode, norm_length=norm_length(mode)).backward()
        return leaf.grad

    whole = gradient(slice(0, 8), 1)
    pieces = [gradient(rows, ranks * micro_batches) for rows in torch.arange(8).chunk(ranks * micro_batches)]
    assert len(pieces) == ranks * micro_batches
    trained = torch.stack(pieces).mean(0)  # what accumulation (mean over micro-batches) and DDP (mean over ranks) do
    assert_golden(trained, whole)


def test_unequal_micro_batches_differ_from_a_mean_of_means():
    left = aggregate(X[:1], MASK[:1], tokens=4, sequences=2, averaging=2)
    right = aggregate(X[1:], MASK[1:], tokens=4, sequences=2, averaging=2)
    assert (left + right).item() / 2 == 2.5
    assert (X[0][MASK[0]].mean() + X[1][MASK[1]].mean()).item() / 2 == 3.0  # the mistake this guards against


def test_masked_nan_does_not_leak():
    x = X.masked_fill(~MASK, float("nan")).requires_grad_()
    for mode, expected in GOLDEN.items():
        loss = aggregate(x, MASK, tokens=4, sequences=2, mode=mode, norm_length=norm_length(mode))
        assert loss.item() == expected
        (gradient,) = torch.autograd.grad(loss, x)
        assert torch.isfinite(gradient).all()
        assert not gradient[~MASK].any()


def test_an_update_without_tokens_gives_zero():
    nothing = torch.zeros_like(MASK)
    for mode in GOLDEN:
        assert aggregate(X, nothing, tokens=0, sequences=0, mode=mode, norm_length=norm_length(mode)).item() == 0.0


def test_shares_sum_to_the_mean(assert_golden):
    total = token_share(X[:1], MASK[:1], 4) + token_share(X[1:], MASK[1:], 4)
    assert_golden(total, 2.5)
    assert not token_share(X.clone().requires_grad_(), MASK, 4).requires_grad


def test_one_row_of_one_token_is_its_own_mean():
    x, mask = torch.tensor([[3.0, 9.0]]), torch.tensor([[True, False]])
    for mode in ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean"):
        assert aggregate(x, mask, tokens=1, sequences=1, mode=mode).item() == 3.0
    for mode in NORM_LENGTH_MODES:
        assert aggregate(x, mask, tokens=1, sequences=1, mode=mode, norm_length=1).item() == 3.0
    assert token_share(x, mask, 1).item() == 3.0


def test_unknown_or_incomplete_modes_are_refused():
    with pytest.raises(ValueError, match="aggregation must be one of token-mean"):
        aggregate(X, MASK, tokens=4, sequences=2, mode="mean")
    with pytest.raises(ValueError, match="needs norm_length"):
        aggregate(X, MASK, tokens=4, sequences=2, mode="seq-mean-token-sum-norm")
