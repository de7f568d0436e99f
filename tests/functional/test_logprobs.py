"""Chunked token log-probabilities: value, gradient and memory against the naive full projection."""

import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sharpo.functional.distill import divergence, likeliest
from sharpo.functional.logprobs import token_distributions, token_logprobs

N, D, V = 23, 5, 11


def _reference_logprobs(hidden, targets, head, temperature):
    log_p = torch.log_softmax(head(hidden) / temperature, dim=-1)
    return log_p[torch.arange(len(targets)), targets], -(log_p.exp() * log_p).sum(-1)


def _problem(dtype=torch.float32, bias=True, n=N, v=V):
    torch.manual_seed(0)
    head = torch.nn.Linear(D, v, bias=bias, dtype=dtype)
    return torch.randn(n, D, dtype=dtype, requires_grad=True), torch.randint(0, v, (n,)), head


@pytest.mark.parametrize("chunk", [1, 4, N, 100])
@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_values_and_gradients_equal_the_full_projection(chunk, temperature, assert_golden):
    hidden, targets, head = _problem()
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(N, generator=generator), torch.randn(N, generator=generator)
    results = []
    for function in (
        lambda: token_logprobs(hidden, targets, head, temperature, chunk, with_entropy=True),
        lambda: _reference_logprobs(hidden, targets, head, temperature),
    ):
        hidden.grad = None
        head.zero_grad()
        logp, entropy = function()[:2]
        (a * logp + b * entropy).sum().backward()
        results.append((logp, entropy, hidden.grad, head.weight.grad, head.bias.grad))
    for ours, reference in zip(*results, strict=True):
        assert_golden(ours.detach(), reference.detach())


def test_gradcheck():
    hidden, targets, head = _problem(torch.float64)

    def function(hidden, weight, bias):
        return token_logprobs(
            hidden, targets, lambda h: torch.nn.functional.linear(h, weight, bias), 0.7, 4, with_entropy=True
        )[:2]

    assert torch.autograd.gradcheck(function, (hidden, head.weight, head.bias))


def test_bfloat16_heads_give_fp32_logprobs(assert_golden):
    hidden, targets, head = _problem(torch.bfloat16)
    logp = token_logprobs(hidden, targets, head, 1.0, 4).logp
    assert logp.dtype == torch.float32
    expected = torch.log_softmax(head(hidden).float(), -1)[torch.arange(N), targets]
    assert_golden(logp.detach(), expected.detach())


def test_no_entropy_unless_asked():
    assert token_logprobs(*_problem(), 1.0, 4).entropy is None


def test_no_tokens_give_empty_results_that_still_reach_the_head():
    hidden, targets, head = _problem(n=0)
    logp, entropy, _ = token_logprobs(hidden, targets, head, 1.0, 4, with_entropy=True)
    assert logp.shape == entropy.shape == (0,)
    logp.sum().backward()
    assert torch.equal(head.weight.grad, torch.zeros_like(head.weight))


class Peak(TorchDispatchMode):
    """Largest tensor made, and most fp32 elements alive at once in tensors of at least ``watch`` elements."""

    def __init__(self, watch):
        super().__init__()
        self.watch, self.largest, self.alive, self.most = watch, 0, {}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(x, torch.Tensor):
                self.largest = max(self.largest, x.numel())
                storage = x.untyped_storage()
                if x.numel() >= self.watch and storage._cdata not in self.alive:
                    key = storage._cdata
                    self.alive[key] = x.numel()
                    weakref.finalize(storage, self.alive.pop, key, None)
                    self.most = max(self.most, sum(self.alive.values()))
        return out


def test_memory_is_one_chunk_in_forward_and_backward():
    n, v, chunk = 256, 512, 8
    peaks = {}
    for name, size in (("chunked", chunk), ("whole", n)):
        hidden, targets, head = _problem(n=n, v=v, bias=False)
        with Peak(watch=chunk * v) as peak:
            logp, entropy, _ = token_logprobs(hidden, targets, head, 0.5, size, with_entropy=True)
            (logp + entropy).sum().backward()
        peaks[name] = peak
    assert peaks["chunked"].largest == chunk * v  # the head's weight (D * V = 5 * 512) is smaller
    assert peaks["whole"].largest == n * v  # the instrument sees what it should
    assert peaks["chunked"].most <= 10 * chunk * v  # a few temporaries of one chunk, not 32 chunks
    assert peaks["whole"].most >= n * v


def test_memory_without_gradient_is_one_chunk():
    hidden, targets, head = _problem(n=256, v=512, bias=False)
    with torch.no_grad(), Peak(watch=8 * 512) as peak:
        token_logprobs(hidden, targets, head, 1.0, 8)
    assert peak.largest == 8 * 512


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_greedy_temperature_is_refused(temperature):
    with pytest.raises(ValueError, match="temperature must be > 0"):
        token_logprobs(*_problem(), temperature, 4)


def test_an_empty_chunk_is_refused():
    with pytest.raises(ValueError, match="chunk must be >= 1"):
        token_logprobs(*_problem(), 1.0, 0)


@pytest.mark.parametrize("chunk", [1, 4, N, 100])
@pytest.mark.parametrize("top", [0, 1, 3, V, V + 5])
def test_divergences_and_gradients_equal_the_full_projection(chunk, top, assert_golden):
    hidden, targets, head = _problem()
    other = torch.randn(N - 6, D, generator=torch.Generator().manual_seed(2))
    weight = torch.linspace(-1.0, 1.0, N - 6)
    results = []
    for ours in (True, False):
        hidden.grad = None
        head.zero_grad()
        if ours:  # the first N - 6 tokens have a teacher
            teacher = token_distributions(other, head, 0.7, chunk, top)
            logp, _, apart = token_logprobs(hidden, targets, head, 0.7, chunk, teacher=teacher, beta=0.3)
        else:
            teacher = likeliest(torch.log_softmax(head(other).detach() / 0.7, -1), top)
            apart = divergence(torch.log_softmax(head(hidden[: N - 6]) / 0.7, -1), teacher, 0.3)
            logp, _ = _reference_logprobs(hidden, targets, head, 0.7)
        ((weight * apart).sum() + logp.sum()).backward()
        results.append((apart.detach(), logp.detach(), hidden.grad, head.weight.grad, head.bias.grad))
    for mine, reference in zip(*results, strict=True):
        assert_golden(mine, reference)


def test_divergence_memory_is_one_chunk_in_forward_and_backward():
    n, v, chunk, top = 256, 512, 8, 4
    peaks = {}
    for name, size in (("chunked", chunk), ("whole", n)):
        hidden, targets, head = _problem(n=n, v=v, bias=False)
        with Peak(watch=chunk * v) as peak:
            teacher = token_distributions(hidden.detach().flip(0), head, 0.5, size, top)
            assert teacher.logp.shape == (n, top)
            apart = token_logprobs(hidden, targets, head, 0.5, size, teacher=teacher).divergence
            apart.sum().backward()
        peaks[name] = peak
    assert peaks["chunked"].largest == chunk * v
    assert peaks["whole"].largest == n * v
    assert peaks["chunked"].most <= 20 * chunk * v  # temporaries of one chunk, not 32 chunks
    assert peaks["whole"].most >= n * v


def test_whole_distributions_are_the_only_thing_of_their_size():
    hidden, targets, head = _problem(n=64, v=512, bias=False)
    teacher = token_distributions(hidden.detach().flip(0), head, 1.0, 8, 0)
    assert teacher.logp.shape == (64, 512)
    with Peak(watch=8 * 512) as peak:
        token_logprobs(hidden, targets, head, 1.0, 8, teacher=teacher).divergence.sum().backward()
    assert peak.largest == 8 * 512  # the student's side is chunked all the same


def test_no_taught_token_gives_an_empty_divergence():
    hidden, targets, head = _problem()
    for top in (0, 2):
        nobody = token_distributions(hidden[:0], head, 1.0, 4, top)
        out = token_logprobs(hidden, targets, head, 1.0, 4, teacher=nobody)
        assert out.divergence.shape == (0,)
        assert out.logp.shape == (N,)
