"""The laws of every multiplicative shaper of a token or a turn, whatever its formula."""

from dataclasses import fields, replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sharpo.algorithms.agent_opsd import AgentOpsd
from sharpo.algorithms.grpo import Grpo
from sharpo.algorithms.grsd import Grsd
from sharpo.algorithms.rlsd import Rlsd
from sharpo.algorithms.sharpo import Balance, Bound, Sharpo
from sharpo.algorithms.step_opsd import StepOpsd
from sharpo.batch import PolicyOutput, Scores
from sharpo.scoring import score

EQUAL_STEPS = {"step_norm": "equal_step_mean_abs", "select": "has_other_success"}
METHODS = {
    "rlsd": (Rlsd, {}),
    "step_opsd": (StepOpsd, {}),
    "step_opsd, exp, all": (StepOpsd, {"weight": "exp", "select": "has_other_success"}),
    "step_opsd, equal steps": (StepOpsd, EQUAL_STEPS),
    "sharpo": (Sharpo, {}),
    "sharpo_b": (Sharpo, {"lam": 0.05, "balance": Balance(gamma=1.0)}),
    "sharpo_turn": (Sharpo, {"span": "turn", "apply_to": "turn"}),
    "sharpo_stepopsd_like": (Sharpo, {"select": "failed_only", "bound": Bound(alpha_clip=0.2)}),
    "grsd": (Grsd, {}),
    "grsd, wide": (Grsd, {"lam": 1.0, "clip": 3.0, "dead_zone": 0.2, "select": "has_other_success"}),
    "agent_opsd": (AgentOpsd, {}),
    "agent_opsd, success rate": (AgentOpsd, {"prior": "success_rate", "lam": 1.0, "width": 1.0}),
}
FAIR = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SEED = st.integers(0, 10_000)


def shaper(name, toys, **knobs):
    kind, own = METHODS[name]
    return kind(policy_loss=toys.plain, **{**own, **knobs})


def permuted(value, order):
    """The rows of a batch, scores or a table in another order."""
    columns = {f.name: getattr(value, f.name) for f in fields(value)}
    return type(value)(**{k: x[order] if isinstance(x, torch.Tensor) else x for k, x in columns.items()})


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", METHODS)
def test_lambda_zero_is_grpo_bit_for_bit(name, seed, toys):
    table, batch, scores, output = toys.problem(seed)
    off, grpo = shaper(name, toys, lam=0.0), Grpo(policy_loss=toys.plain)
    assert not off.needs_teacher
    untaught = Scores(scores.old_logp, reference_logp=scores.reference_logp)  # with lambda 0 there is no teacher
    ours, theirs = (toys.credited(batch, untaught, replace(table, teacher_logp=None), x) for x in (off, grpo))
    assert torch.equal(ours.advantages, theirs.advantages)
    a, b = off.objective(output, scores, ours).loss, grpo.objective(output, scores, theirs).loss
    assert torch.equal(a, b)
    assert torch.equal(*(torch.autograd.grad(x, output.logp)[0] for x in (a, b)))


@pytest.mark.parametrize("name", METHODS)
def test_halfway_through_its_schedule_lambda_is_half(name, toys):
    table, batch, scores, _ = toys.problem(0)
    decaying = shaper(name, toys, lam=0.5, lambda_schedule="linear_to_zero(4)")
    constant = shaper(name, toys, lam=0.25, lambda_schedule="constant")
    ours = toys.credited(batch, scores, table, decaying, iteration=2).advantages
    assert torch.equal(ours, toys.credited(batch, scores, table, constant, iteration=2).advantages)


@pytest.mark.parametrize("name", METHODS)
def test_it_does_something(name, toys):
    table, batch, scores, _ = toys.problem(0)
    ours, theirs = (
        toys.credited(batch, scores, table, x).advantages for x in (shaper(name, toys), Grpo(policy_loss=toys.plain))
    )
    assert not torch.equal(ours, theirs)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "sharpo_b"])  # there lengths act without a gap
@FAIR
@given(seed=SEED)
def test_a_zero_gap_gives_the_base_bit_for_bit(name, toys, seed):
    table, batch, scores, _ = toys.problem(seed)
    scores = Scores(scores.old_logp, scores.old_logp.clone())
    table = replace(table, teacher_logp=table.student_logp.clone())
    ours, theirs = (
        toys.credited(batch, scores, table, x).advantages for x in (shaper(name, toys), Grpo(policy_loss=toys.plain))
    )
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", METHODS)
@FAIR
@given(seed=SEED, lam=st.floats(0.0, 1.0), scale=st.floats(0.0, 50.0))
def test_the_sign_is_kept_zero_stays_zero_and_nothing_is_infinite(name, toys, seed, lam, scale):
    table, batch, scores, _ = toys.problem(seed)
    base = table.base.clone()
    base[seed % len(base)] = 0.0
    student = table.student_logp
    table = replace(table, base=base, teacher_logp=student + scale * (table.teacher_logp - student))
    scores = Scores(scores.old_logp, scores.old_logp + scale * (scores.teacher_logp - scores.old_logp))
    shaped = toys.credited(batch, scores, table, shaper(name, toys, lam=lam)).advantages
    plain = toys.credited(batch, scores, table, Grpo(policy_loss=toys.plain)).advantages
    assert torch.isfinite(shaped).all()
    assert (shaped * plain >= 0).all()
    assert lam > 0.99 or torch.equal(shaped.sign(), plain.sign())  # a weight of 0 may take all with lambda 1 alone
    assert not shaped[plain == 0].any()
    assert not shaped[~batch.action_mask].any()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("seed", range(3))
def test_without_a_hint_the_base_stays_bit_for_bit(name, seed, toys):
    table, batch, scores, _ = toys.problem(seed)
    plain = toys.credited(batch, scores, table, Grpo(policy_loss=toys.plain)).advantages
    alone = ~table.selected[batch.segment_index.clamp(min=0)]
    poisoned = Scores(scores.old_logp, scores.teacher_logp.masked_fill(alone, float("nan")))
    shaped = toys.credited(batch, poisoned, table, shaper(name, toys)).advantages
    assert torch.equal(shaped[alone], plain[alone])
    none = torch.zeros_like(table.selected)
    bare = replace(table, selected=none, hinted=none, student_logp=None, teacher_logp=None)
    shaped = toys.credited(batch, Scores(scores.old_logp), bare, shaper(name, toys)).advantages
    assert torch.equal(shaped, plain)


@pytest.mark.parametrize("name", METHODS)
def test_a_rank_without_rows_has_nothing_to_credit(name, toys):
    table, batch, scores, _ = toys.problem(0)
    batch = replace(
        batch,
        segment_index=torch.full_like(batch.segment_index, -1),
        action_mask=torch.zeros_like(batch.action_mask),
        span_mask=torch.zeros_like(batch.span_mask),
    )
    empty = permuted(table, torch.zeros(0, dtype=torch.int64))
    assert not toys.credited(batch, scores, empty, shaper(name, toys)).advantages.any()


@pytest.mark.parametrize("name", METHODS)
def test_no_gradient_flows_through_the_shaping(name, toys):
    table, batch, scores, output = toys.problem(4)
    live = Scores(scores.old_logp.requires_grad_(), scores.teacher_logp.requires_grad_())
    table = replace(
        table, student_logp=table.student_logp.requires_grad_(), teacher_logp=table.teacher_logp.requires_grad_()
    )
    credited = toys.credited(batch, live, table, shaper(name, toys))
    assert not credited.advantages.requires_grad
    assert torch.isfinite(
        torch.autograd.grad(shaper(name, toys).objective(output, live, credited).loss, output.logp)[0]
    ).all()


@pytest.mark.parametrize("name", METHODS)
@FAIR
@given(seed=SEED)
def test_the_order_of_rows_and_of_segments_does_not_matter(name, toys, seed):
    table, batch, scores, _ = toys.problem(seed)
    algorithm = shaper(name, toys)
    straight = toys.credited(batch, scores, table, algorithm).advantages
    generator = torch.Generator().manual_seed(seed)
    rows, order = (torch.randperm(n, generator=generator) for n in (len(straight), len(table)))
    shuffled = permuted(table, order)
    moved = replace(batch, segment_index=torch.where(
        batch.segment_index >= 0, torch.argsort(order)[batch.segment_index.clamp(min=0)], -1
    ))  # fmt: skip
    turned = toys.credited(permuted(moved, rows), permuted(scores, rows), shuffled, algorithm).advantages
    torch.testing.assert_close(turned, straight[rows], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_an_unscored_table_is_refused(name, toys):
    table, batch, scores, _ = toys.problem(0)
    with pytest.raises(ValueError, match="score the"):
        toys.credited(batch, Scores(scores.old_logp), replace(table, teacher_logp=None), shaper(name, toys))


class Rollouts:
    """Two episodes of one group, in a buffer that scoring reads: a failed one with a hint, and its peer."""

    def __init__(self, toys, iteration):
        self.segments, self.batch, _ = toys.tokens(
            [[0.0] * 3, [0.0] * 2, [0.0] * 4], [-1.0, -1.0, 1.0],
            episode=[0, 0, 1], success=[False, False, True], selected=[True, True, False],
        )  # fmt: skip
        self.iteration, self.advantages = iteration, None
        ids = torch.arange(self.batch.token_ids.numel()).reshape(self.batch.token_ids.shape) % 11
        hinted = self.segments.selected[:, None]
        self.batch = replace(
            self.batch,
            token_ids=ids,
            teacher_token_ids=torch.cat([torch.full((3, 2), 7), ids], dim=1),
            teacher_attention=torch.cat([torch.ones(3, 2, dtype=torch.bool), self.batch.attention], dim=1) & hinted,
        )

    def score_batches(self):
        return [self.batch]

    def set_scores(self, i, scores):
        self.scores = scores

    def set_segments(self, segments):
        self.segments = segments

    def set_advantages(self, i, advantages):
        self.advantages = advantages


def reads(token_ids, attention, mask, temperature):
    """A policy whose numbers depend on all that it reads."""
    del mask, temperature
    read = (token_ids * attention).cumsum(1)
    return PolicyOutput(-0.1 - ((read * 7) % 13) / 13)


@pytest.mark.parametrize("name", METHODS)
def test_a_schedule_that_has_run_out_makes_no_teacher_pass_and_is_grpo(name, toys):
    passes = []

    def counted(*arguments):
        passes.append(arguments[0].shape[0])
        return reads(*arguments)

    algorithm = shaper(name, toys, lambda_schedule="linear_to_zero(5)")
    first, last, plain = Rollouts(toys, 4), Rollouts(toys, 5), Rollouts(toys, 5)
    logged = [
        score(buffer, reads, method, temperature=1.0, device="cpu", teacher=counted)
        for buffer, method in ((first, algorithm), (last, algorithm), (plain, Grpo(policy_loss=toys.plain)))
    ]
    assert [x["credit/teacher_rows"] for x in logged] == [2.0, 0.0, 0.0]
    assert passes == [2]
    assert torch.equal(last.advantages, plain.advantages)
    assert not torch.equal(first.advantages, plain.advantages)


@pytest.mark.parametrize(
    ("name", "taught"),
    [
        ("step_opsd", [False, False, True, False]),
        ("sharpo_stepopsd_like", [False, False, True, False]),
        ("sharpo_turn", [True, True, True, False]),
        ("rlsd", [True, True, True, False]),
    ],
)
def test_the_teacher_reads_only_episodes_that_can_be_reweighted(name, taught, toys):
    # a success, a failure, a failure without an advantage
    won = [True, True, False, False]
    table = toys.segments([0.1] * 4, [1.0, 1.0, -1.0, 0.0], [2] * 4, episode=[0, 0, 1, 2], success=won)
    assert shaper(name, toys).teacher_reads(table).tolist() == taught
