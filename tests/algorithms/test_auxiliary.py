"""What all auxiliary losses keep: GRPO's advantages and divisor, silence without a hint, the current policy."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpo.algorithms.grpo import Grpo
from sharpo.algorithms.grpo_opsd import GrpoOpsd
from sharpo.algorithms.opsd import Opsd
from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.algorithms.sdar import Sdar
from sharpo.algorithms.skill_sd import SkillSd
from sharpo.batch import Batch, PolicyOutput, Scores, Update
from sharpo.errors import ConfigError

PLAIN = PolicyLoss()
KINDS = {
    "sdar": Sdar(policy_loss=PLAIN),
    "skill_sd": SkillSd(policy_loss=PLAIN),
    "grpo_opsd": GrpoOpsd(policy_loss=PLAIN),
    "grpo_opsd_repo": GrpoOpsd(policy_loss=PLAIN, loss="repo_surrogate"),
    "opsd": Opsd(policy_loss=PLAIN),
}
every = pytest.mark.parametrize("algorithm", KINDS.values(), ids=KINDS)
BESIDE_GRPO = {name: x for name, x in KINDS.items() if name != "opsd"}
beside_grpo = pytest.mark.parametrize("algorithm", BESIDE_GRPO.values(), ids=BESIDE_GRPO)


def run(algorithm, batch, scores, output):
    out = algorithm.objective(output, scores, batch)
    return out, torch.autograd.grad(out.loss, output.logp, retain_graph=True)[0]


@every
def test_the_teacher_is_read_on_every_token_and_also_without_credit(algorithm):
    assert algorithm.needs_teacher
    assert algorithm.acts_on_tokens
    assert algorithm.teaches_uncredited
    assert algorithm.teaches_at(10**6)


@every
def test_advantages_are_those_of_grpo(algorithm, toys):
    table, batch, scores, _ = toys.problem(3)
    ours = toys.credited(batch, scores, table, algorithm).advantages
    assert torch.equal(ours, toys.credited(batch, scores, table, Grpo(policy_loss=PLAIN)).advantages)
    group = toys.group([(1.0, 0.0)] * 2, [(0.0, 0.1)] * 3)
    assert torch.equal(algorithm.base_advantages(group), Grpo(policy_loss=PLAIN).base_advantages(group))


@beside_grpo
def test_coefficient_zero_is_grpo_bit_for_bit_and_loads_no_teacher(algorithm, toys):
    table, batch, scores, output = toys.problem(4)
    off = replace(algorithm, coef=0.0)
    assert not off.needs_teacher
    batch = toys.credited(batch, scores, table, off)
    ours, slope = run(off, batch, replace(scores, teacher_logp=None), output)
    grpo, its = run(Grpo(policy_loss=PLAIN), batch, scores, output)
    assert torch.equal(ours.loss, grpo.loss)
    assert torch.equal(slope, its)
    assert ours.metrics.keys() == grpo.metrics.keys()


@beside_grpo
@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), coef=st.floats(0.001, 2.0))
def test_the_loss_is_grpos_plus_coef_times_the_term_on_taught_rows(algorithm, seed, coef):
    torch.manual_seed(seed)
    mask, n = torch.rand(3, 5) < 0.7, 7
    mask[:, 0] = False
    logp = (-3 * torch.rand(3, 5, dtype=torch.float64)).requires_grad_()
    old, teacher = -3 * torch.rand(3, 5, dtype=torch.float64), -3 * torch.rand(3, 5, dtype=torch.float64)
    teacher[1] = torch.nan
    advantages = torch.randn(3, 5, dtype=torch.float64)
    batch = Batch(
        torch.zeros(3, 5, dtype=torch.int64), torch.ones(3, 5, dtype=torch.bool), mask, mask,
        torch.where(mask, 0, -1), torch.zeros(3, 5), Update(tokens=n, sequences=3), 0, advantages,
    )  # fmt: skip
    algorithm = replace(algorithm, coef=coef)
    ours, _ = run(algorithm, batch, Scores(old, teacher), PolicyOutput(logp))
    base, _ = run(Grpo(policy_loss=PLAIN), batch, Scores(old), PolicyOutput(logp))
    total = 0.0
    for b in range(3):
        for t in range(5):
            if not mask[b, t] or b == 1:
                continue
            x, o, y = (float(z[b, t].detach()) for z in (logp, old, teacher))
            if isinstance(algorithm, Sdar):
                total += (y - x) / (1 + torch.tensor(-algorithm.gate_beta * (y - x)).exp().item())
            elif isinstance(algorithm, SkillSd):
                total += float(torch.tensor(x - o).exp() * (torch.tensor(y - x).exp() - 1 - (y - x)))
            elif algorithm.loss == "repo_surrogate":
                total += 0.5 * (y - x)
            else:
                total += -(y - x) * x
    assert float(ours.loss.detach()) == pytest.approx(float(base.loss.detach()) + coef * total / n, abs=1e-5)


@every
def test_a_row_without_a_hint_adds_nothing(algorithm, toys):
    batch, scores, output = toys.taught([-1.0, -0.5, -2.0], [-0.8, -0.9, -2.0])
    out, slope = run(algorithm, batch, scores, output)
    assert torch.isfinite(slope).all()
    assert not slope[1].any()
    assert out.metrics["taught_share"] == 1.0  # three tokens of three; the other row is not in this count
    blind = replace(scores, teacher_logp=torch.full_like(scores.old_logp, torch.nan))
    out, slope = run(algorithm, batch, blind, output)
    assert out.loss == 0  # advantages are 0
    assert not slope.any()
    assert out.metrics["taught_share"] == 0.0


@every
def test_equal_contexts_give_no_term_where_the_teacher_counts(algorithm, toys):
    batch, scores, output = toys.taught([-1.0, -0.5, -2.0], [-1.0, -0.5, -2.0])
    out, slope = run(algorithm, batch, scores, output)
    assert out.loss == 0
    lowered_everywhere = isinstance(algorithm, Sdar) or algorithm == KINDS["grpo_opsd_repo"]
    assert slope[0, 1:4].any() == lowered_everywhere  # their gradient does not vanish: a reading note says so


@every
def test_a_batch_scored_without_a_teacher_is_refused(algorithm, toys):
    batch, scores, output = toys.taught([-1.0], [-0.8])
    with pytest.raises(ValueError, match=r"teacher_logp is None.*score the teacher"):
        algorithm.objective(output, replace(scores, teacher_logp=None), batch)


@every
def test_the_term_is_divided_by_the_updates_tokens(algorithm, toys):
    batch, scores, output = toys.taught([-1.0, -0.5, -2.0], [-0.8, -0.9, -2.0])
    twice = replace(batch, update=replace(batch.update, tokens=6))
    a, b = (run(algorithm, x, scores, output)[1] for x in (batch, twice))
    torch.testing.assert_close(a, 2 * b)


@every
def test_row_order_does_not_matter(algorithm, toys):
    table, batch, scores, output = toys.problem(5)
    batch = toys.credited(batch, scores, table, algorithm)
    turned = {name: value.flip(0) for name, value in vars(batch).items() if isinstance(value, torch.Tensor)}
    flipped = PolicyOutput(output.logp.detach().flip(0).requires_grad_())
    other = Scores(*(x.flip(0) for x in (scores.old_logp, scores.teacher_logp, scores.reference_logp)))
    mine, theirs = run(algorithm, batch, scores, output)[1], run(algorithm, replace(batch, **turned), other, flipped)[1]
    torch.testing.assert_close(mine, theirs.flip(0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sdar(policy_loss=PLAIN, coef=-0.1), "algorithm.coef must be >= 0, got -0.1"),
        (lambda: Sdar(policy_loss=PLAIN, gate_beta=-1.0), "algorithm.gate_beta must be >= 0"),
        (lambda: GrpoOpsd(policy_loss=PLAIN, loss="kl"), "algorithm.loss must be one of"),
        (lambda: GrpoOpsd(policy_loss=PLAIN, gate_beta=5.0), "gate_beta=5.0 has no effect without loss=repo_surrogate"),
        (lambda: GrpoOpsd(policy_loss=PLAIN, loss="repo_surrogate", gate_beta=-1.0), "algorithm.gate_beta"),
        (lambda: Opsd(policy_loss=PLAIN, coef=0.0), "algorithm.coef must be > 0.*all that opsd trains on"),
    ],
)
def test_wrong_knobs_name_themselves(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
