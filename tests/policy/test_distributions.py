"""The policy as a teacher of distributions and as their student: equal to the naive full softmax, gradient included."""

from __future__ import annotations

import pytest
import torch

from sharpo.batch import Taught
from sharpo.policy.causal_lm import CausalPolicy

HINT = [30, 31, 32]
ROWS = [[2, 9, 17, 33, 21, 3, 40, 8], [5, 6, 7, 8], [11, 12, 13, 14, 15, 16]]
TAUGHT = [0, 2]  # the row between them has no hint
TEMPERATURE, BETA = 0.7, 0.4


def student_batch():
    ids, attention = torch.zeros(3, 8, dtype=torch.int64), torch.zeros(3, 8, dtype=torch.bool)
    for n, row in enumerate(ROWS):
        ids[n, : len(row)], attention[n, : len(row)] = torch.tensor(row), True
    mask = torch.zeros_like(attention)
    mask[0, [3, 4, 7]] = mask[1, 2:4] = mask[2, [1, 5]] = True
    return ids, attention, mask


def teacher_batch(hint):
    """Rows with the hint after their first token, right-aligned to the student's columns."""
    _, _, mask = student_batch()
    h = len(hint)
    ids, attention = torch.zeros(2, 8 + h, dtype=torch.int64), torch.zeros(2, 8 + h, dtype=torch.bool)
    for n, b in enumerate(TAUGHT):
        row = [ROWS[b][0], *hint, *ROWS[b][1:]]
        ids[n, : len(row)], attention[n, : len(row)] = torch.tensor(row), True
    at = torch.zeros_like(attention)
    at[:, -8:] = mask[TAUGHT]
    return ids, attention, at


def ours(policy, top, hint=HINT):
    ids, attention, mask = student_batch()
    seen = policy(*teacher_batch(hint), TEMPERATURE, top=top).distributions
    which = mask.clone()
    which[1] = False
    return policy(ids, attention, mask, TEMPERATURE, taught=Taught(which, seen, BETA))


def naive(policy, hint=HINT):
    """JSD of full softmaxes, (3, 8), in loops over rows and tokens."""
    out = {}
    _, _, mask = student_batch()
    for b in TAUGHT:
        student = (policy.lm(torch.tensor([ROWS[b]])).logits[0] / TEMPERATURE).log_softmax(-1)
        with torch.no_grad():
            teacher = policy.lm(torch.tensor([[ROWS[b][0], *hint, *ROWS[b][1:]]])).logits[0] / TEMPERATURE
            teacher = teacher.log_softmax(-1)
        for t in mask[b].nonzero().flatten().tolist():
            p_t, p_s = teacher[t - 1 + len(hint)].exp(), student[t - 1].exp()
            m = BETA * p_t + (1 - BETA) * p_s
            out[b, t] = BETA * (p_t * (p_t / m).log()).sum() + (1 - BETA) * (p_s * (p_s / m).log()).sum()
    return out


@pytest.mark.parametrize("chunk", [2, 1024])
def test_the_full_divergence_equals_the_naive_softmax_with_its_gradient(folder, chunk):
    mine, plain = CausalPolicy(folder, chunk_tokens=chunk), CausalPolicy(folder)
    found, expected = ours(mine, 0).divergence, naive(plain)
    for (b, t), value in expected.items():
        assert value > 1e-3  # the hint matters
        assert abs(found[b, t] - value) < 1e-5
    outside = torch.ones_like(found, dtype=torch.bool)
    outside[tuple(zip(*expected, strict=True))] = False
    assert (found[outside] == 0).all()
    found.sum().backward()
    torch.stack(list(expected.values())).sum().backward()
    for (name, a), (_, b) in zip(mine.named_parameters(), plain.named_parameters(), strict=True):
        assert (a.grad - b.grad).abs().max() < 1e-5 * max(b.grad.abs().max().item(), 1.0), name


def test_as_many_likeliest_tokens_as_the_vocabulary_are_the_full_divergence(policy):
    full = ours(policy, 0).divergence
    size = policy.lm.config.vocab_size
    assert torch.equal(ours(policy, size).divergence, full)
    almost, few = ours(policy, size - 1).divergence, ours(policy, 3).divergence
    assert (almost - full).abs().max() < 1e-5
    assert (few <= full + 1e-6).all()
    assert (few - full).abs().max() > 1e-4


@pytest.mark.parametrize("top", [0, 5])
def test_identical_contexts_have_no_divergence(policy, top):
    assert ours(policy, top, hint=[]).divergence.abs().max() < 1e-6


def test_log_probabilities_are_the_same_with_and_without_a_teacher(policy):
    ids, attention, mask = student_batch()
    plain = policy(ids, attention, mask, TEMPERATURE, True)
    assert (ours(policy, 4).logp - plain.logp).abs().max() < 1e-6
    assert plain.divergence is None


def test_no_scored_token_gives_no_distribution_and_no_divergence(policy):
    ids, attention, mask = student_batch()
    none = torch.zeros_like(mask)
    seen = policy(ids, attention, none, 1.0, top=4).distributions
    assert seen.logp.shape == (0, 4)
    for where in (none, mask):
        out = policy(ids, attention, where, 1.0, taught=Taught(none, seen, 0.5))
        assert (out.divergence == 0).all()


def test_a_distribution_too_many_is_refused(policy):
    ids, attention, mask = student_batch()
    seen = policy(ids, attention, mask, 1.0, top=4).distributions
    wrong = mask.clone()
    wrong[0, 3] = False
    with pytest.raises(ValueError, match="one token for each distribution"):
        policy(ids, attention, mask, 1.0, taught=Taught(wrong, seen, 0.5))
    with pytest.raises(ValueError, match="must lie in score_mask"):
        policy(ids, attention, wrong, 1.0, taught=Taught(mask, seen, 0.5))
