"""The update with a teacher's distributions: its passes and its gradient."""

from dataclasses import replace

import pytest
import torch

from sharpo import update
from sharpo.algorithms.opsd import Opsd
from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.batch import Batch, Divergence, Scores, Update
from sharpo.policy.causal_lm import CausalPolicy
from sharpo.policy.tiny import TinyModel

WORDS = ["go", "to", "take", ".", *[f"{name} {n}" for name in ("desk", "mug", "apple") for n in range(1, 9)]]
TEMPERATURE = 0.8
JSD = Opsd(policy_loss=PolicyLoss(), loss="jsd_full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return TinyModel(str(tmp_path_factory.mktemp("tiny")), width=32, heads=1, layers=1).prepare(lambda: WORDS)


def problem(hinted=(True, False)):
    """Two rows of six tokens; a hint of two tokens after the first token of those that have one."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 20, (2, 6), generator=generator)
    mask = torch.zeros(2, 6, dtype=torch.bool)
    mask[:, 3:] = True
    teacher_ids = teacher_attention = None
    if any(hinted):
        teacher_ids = torch.cat([ids[:, :1], torch.tensor([[21, 22]] * 2), ids[:, 1:]], dim=1)
        teacher_attention = torch.tensor(hinted)[:, None].expand(2, 8).clone()
    rows = Batch(
        ids, torch.ones(2, 6, dtype=torch.bool), mask, mask, torch.where(mask, 0, -1), torch.zeros(2, 6),
        Update(tokens=6, sequences=2), 0, torch.zeros(2, 6), teacher_ids, teacher_attention,
    )  # fmt: skip
    return rows, Scores(torch.zeros(2, 6), torch.full((2, 6), torch.nan))


class Counted:
    """A policy whose passes are counted."""

    def __init__(self, policy):
        self.policy, self.passes = policy, []

    def __call__(self, *args, **kwargs):
        self.passes.append("teacher" if "top" in kwargs else "student")
        return self.policy(*args, **kwargs)


def test_the_teacher_runs_on_hinted_rows_right_before_the_student(folder):
    policy = Counted(CausalPolicy(folder))
    rows, scores = problem()
    out = update.step(policy, JSD, rows, scores, TEMPERATURE)
    assert policy.passes == ["teacher", "student"]
    assert out.metrics["taught_share"] == 0.5
    assert out.loss > 0
    alone = update.step(policy.policy, JSD, *(replace(x) for x in problem()), TEMPERATURE)
    assert torch.equal(out.loss, alone.loss)


def test_without_a_hinted_row_the_teacher_is_only_run_where_ranks_must_keep_step(folder):
    rows, scores = problem((False, False))
    for lockstep, passes in ((False, ["student"]), (True, ["teacher", "student"])):
        policy = Counted(CausalPolicy(folder))
        out = update.step(policy, JSD, rows, scores, TEMPERATURE, lockstep=lockstep)
        assert policy.passes == passes
        assert out.loss == 0
        out.loss.backward()
        assert all(p.grad is not None and not p.grad.any() for p in policy.policy.parameters())


def test_no_teacher_pass_for_a_method_that_compares_tokens(folder):
    policy = Counted(CausalPolicy(folder))
    rows, scores = problem()
    update.step(policy, Opsd(policy_loss=PolicyLoss()), rows, scores, TEMPERATURE)
    assert policy.passes == ["student"]


def test_a_copy_with_the_same_weights_teaches_as_the_policy_itself_does(folder):
    policy, copy = CausalPolicy(folder), CausalPolicy(folder).requires_grad_(False)
    losses = [update.step(policy, JSD, *problem(), TEMPERATURE, teacher).loss for teacher in (None, copy)]
    assert torch.equal(*losses)


def test_the_gradient_is_the_students_alone_and_lowers_the_divergence(folder):
    policy = CausalPolicy(folder)
    rows, scores = problem()
    taught = update.teach(policy, rows, Divergence(), TEMPERATURE, lockstep=False)
    assert not taught.teacher[0].requires_grad
    assert taught.mask.sum() == len(taught.teacher[0]) == 3

    def apart():
        return policy(rows.token_ids, rows.attention, rows.action_mask, TEMPERATURE, taught=taught).divergence.sum()

    start = apart()
    step = update.step(policy, JSD, rows, scores, TEMPERATURE).loss
    torch.testing.assert_close(step, start / 6)
    step.backward()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter -= 0.5 * parameter.grad
    assert apart() < start


def test_mixed_precision_keeps_the_gradient_after_the_teachers_pass(folder):
    gradients = []
    for width in (None, torch.bfloat16):
        policy = CausalPolicy(folder)
        with torch.autocast("cpu", dtype=width or torch.bfloat16, enabled=width is not None):
            loss = update.step(policy, JSD, *problem(), TEMPERATURE).loss
        loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in policy.parameters()]))
    exact, mixed = gradients
    assert torch.nn.functional.cosine_similarity(exact, mixed, dim=0) > 0.98
    assert 0.9 < mixed.norm() / exact.norm() < 1.1


def test_micro_batches_with_and_without_hints_add_up(folder):
    rows, scores = problem()
    whole, parts = CausalPolicy(folder), CausalPolicy(folder)
    update.step(whole, JSD, rows, scores, TEMPERATURE).loss.backward()
    for n in range(2):
        cut = {k: v[n : n + 1] for k, v in vars(rows).items() if isinstance(v, torch.Tensor)}
        part = Scores(scores.old_logp[n : n + 1], scores.teacher_logp[n : n + 1])
        update.step(parts, JSD, replace(rows, **cut), part, TEMPERATURE).loss.backward()
    for a, b in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-6, rtol=1e-5)
