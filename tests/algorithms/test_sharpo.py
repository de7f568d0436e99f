"""SHARPO as an algorithm: the worked examples through credit(), every choice, the laws, the token level."""

import math
from dataclasses import replace

import pytest
import torch

from sharpo.algorithms.baseline import Baseline
from sharpo.algorithms.grpo import Grpo
from sharpo.algorithms.sharpo import Balance, Bound, Sharpo
from sharpo.batch import Batch, Scores, Update
from sharpo.errors import ConfigError
from sharpo.functional.segment_ops import segment_sum

GAP, LENGTH = [0.9, -0.3, 0.1], [4, 8, 4]

WORKED = {
    # name: (A, knobs, A_eff); the arithmetic stands beside the four steps in tests/functional/test_credit.py
    "T-SH-1": (-0.8, {}, [-0.7367, -0.8322, -0.7989]),
    "T-SH-1, lambda 0.05": (-0.8, {"lam": 0.05}, [-0.7842, -0.8080, -0.7997]),
    "T-SH-2": (1.2, {}, [1.2870, 1.1557, 1.2015]),
    "T-SH-3, failed": (-0.8, {"balance": Balance(rule="none")}, [-0.7325, -0.8238, -0.7920]),
    "T-SH-3, won": (1.2, {"balance": Balance(rule="none")}, [1.3013, 1.1643, 1.2120]),
    "T-SH-3, not normalised": (1.2, {"balance": Balance(normalize=False)}, [1.3013, 1.1643, 1.2120]),
    "T-SH-4, failed": (-0.8, {"bound": Bound(alpha_clip=0.2)}, [-0.7665, -0.8217, -0.7902]),
    "T-SH-4, won": (1.2, {"bound": Bound(alpha_clip=0.2)}, [1.2515, 1.1667, 1.2150]),
    "T-SH-4, exp_clip": (-0.8, {"bound": Bound(kind="exp_clip")}, [-0.7647, -0.8271, -0.7811]),
    "T-SH-4, tanh": (-0.8, {"bound": Bound(kind="tanh", alpha=0.5)}, [-0.7458, -0.8288, -0.7966]),
    "T-SH-5": (-0.8, {"balance": Balance(gamma=1.0)}, [-0.7782, -0.7773, -0.8671]),
    "T-SH-5, not normalised": (-0.8, {"balance": Balance(gamma=1.0, normalize=False)}, [-0.7633, -0.7625, -0.8427]),
    "T-SH-8": (
        -0.8, {"bound": Bound(sign_mode="unsigned"), "balance": Balance(rule="none")}, [-0.8675, -0.7762, -0.8080],
    ),
    # outside, gamma 1: m = 0.8 + 0.2 w = [0.9156, 1.0298, 0.9900]; mb = [1.2208, 0.6865, 1.3200];
    # Z = (4*1.2208 + 8*0.6865 + 4*1.3200)/16 = 0.9785; A_eff = -0.8 mb / Z
    "outside": (-0.8, {"balance": Balance(gamma=1.0, where="outside")}, [-0.9981, -0.5613, -1.0792]),
}  # fmt: skip


@pytest.mark.parametrize("case", WORKED)
def test_worked_examples(case, toys, assert_golden):
    a, knobs, expected = WORKED[case]
    table = toys.segments(GAP, [a] * 3, LENGTH)
    effective = Sharpo(policy_loss=toys.plain, **knobs).credit(table, 0)
    assert_golden(effective, expected, printed_decimals=4)


def test_t_sh_6_the_rule_that_erases_weights_is_refused():
    with pytest.raises(ConfigError, match=r"step_mean_abs is refused.*erases"):
        Balance(rule="step_mean_abs")


def test_t_sh_7_token_level(toys, assert_golden):
    # gaps: (0.5 + 0.4)/2 = 0.4500; (0.1 + 0 - 0.2)/3 = -0.0333. w = 2 sigma(-gap) = [0.7787, 1.0167]
    # Z = (2*0.7787 + 3*1.0167)/5 = 0.9215; v = [0.8451, 1.1033]; A_eff = -0.7 (0.8 + 0.2 v)
    teacher = torch.tensor([[-0.2, -0.1, -0.3, -0.4, -1.0, -0.5], [-0.6, -0.2, -0.1, -0.1, -0.3, 0.0]])
    student = torch.tensor([[-0.3, -0.2, -0.2, -0.4, -1.5, -0.9], [-0.5, -0.2, -0.2, -0.1, -0.1, 0.0]])
    span = torch.tensor([[0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 0]], dtype=torch.bool)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]], dtype=torch.bool)
    index = torch.where(mask, torch.tensor([[0], [1]]), -1)
    batch = Batch(
        token_ids=torch.zeros(2, 6, dtype=torch.int64), attention=mask, action_mask=mask, span_mask=span,
        segment_index=index, behaviour_logp=student, update=Update(11, 2), policy_version=0,
    )  # fmt: skip
    scores = Scores(student, teacher)
    table = toys.segments([0.0, 0.0], [-0.7, -0.7], [2, 3])
    table = table.scored(segment_sum(student, index, 2, span), segment_sum(teacher, index, 2, span))
    algorithm = Sharpo(policy_loss=toys.plain)
    a_eff = algorithm.token_advantages(batch, scores, table, algorithm.credit(table, 0), 0)
    expected = [[-0.7, -0.7, -0.7, -0.7, -0.6783, -0.6783], [-0.7, -0.7, -0.7145, -0.7145, -0.7145, 0.0]]
    assert_golden(a_eff, expected, printed_decimals=4)
    turn = replace(algorithm, apply_to="turn")
    whole = turn.token_advantages(batch, scores, table, turn.credit(table, 0), 0)
    assert_golden(whole, [[-0.6783] * 6, [-0.7145] * 5 + [0.0]], printed_decimals=4)


VARIANTS = {
    "default": {},
    "group scope": {"balance": Balance(scope="group")},
    "batch scope": {"balance": Balance(scope="batch", gamma=1.0)},
    "outside": {"balance": Balance(where="outside", gamma=1.0)},
    "none": {"balance": Balance(rule="none")},
    "failed_only": {"select": "failed_only"},
    "mixed_groups_only": {"select": "mixed_groups_only"},
    "group_mean_abs": {"gap_norm": "group_mean_abs"},
    "traj_center": {"gap_norm": "traj_center"},
    "positive_only": {"bound": Bound(sign_mode="positive_only")},
    "negative_only": {"bound": Bound(sign_mode="negative_only")},
    "zscore": {"bound": Bound(kind="zscore_clip")},
    "turn": {"span": "turn", "apply_to": "turn"},
    "decay": {"lambda_schedule": "linear_to_zero(4)"},
}


TWO_GROUPS = {"episode": [0, 0, 0, 1, 1, 2, 2, 3], "group": [0, 0, 0, 0, 0, 1, 1, 1]}
SELECTED = [True, True, False, True, True, True, True, True]


def _reference_credit(gap, base, length, scope, gap_norm):
    """A_eff one segment at a time: what is averaged together is looked up by hand."""
    chosen = [k for k, yes in enumerate(SELECTED) if yes]
    rate = []
    for k in range(len(gap)):
        group = [abs(gap[j]) for j in chosen if TWO_GROUPS["group"][j] == TWO_GROUPS["group"][k]]
        own = [j for j in chosen if TWO_GROUPS["episode"][j] == TWO_GROUPS["episode"][k]]
        centre = sum(length[j] * gap[j] for j in own) / sum(length[j] for j in own)
        rate.append({"none": gap[k], "group_mean_abs": gap[k] / (sum(group) / len(group) + 1e-6),
                     "traj_center": gap[k] - centre}[gap_norm])  # fmt: skip
    weight = [2 / (1 + math.exp(-math.copysign(1, a) * g)) for a, g in zip(base, rate, strict=True)]
    out = []
    for k, a in enumerate(base):
        key = {"trajectory": TWO_GROUPS["episode"], "group": TWO_GROUPS["group"], "batch": [0] * len(base)}[scope]
        together = [j for j in chosen if key[j] == key[k]]
        z = sum(length[j] * weight[j] for j in together) / sum(length[j] for j in together)
        out.append(a * (0.8 + 0.2 * weight[k] / z) if SELECTED[k] else a)
    return out


@pytest.mark.parametrize("scope", ["trajectory", "group", "batch"])
@pytest.mark.parametrize("gap_norm", ["none", "group_mean_abs", "traj_center"])
def test_what_is_averaged_together(scope, gap_norm, toys, assert_golden):
    gap, base = [0.9, -0.3, 0.1, 0.4, -0.8, 0.2, -0.5, 1.1], [-0.8, -0.8, -0.8, 1.2, 1.2, 0.6, 0.6, -1.4]
    length = [4, 8, 4, 3, 6, 2, 5, 7]
    table = toys.segments(gap, base, length, **TWO_GROUPS, selected=SELECTED)
    algorithm = Sharpo(policy_loss=toys.plain, balance=Balance(scope=scope), gap_norm=gap_norm)
    assert_golden(algorithm.credit(table, 0), _reference_credit(gap, base, length, scope, gap_norm))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(5))
def test_lambda_zero_is_grpo_bit_for_bit(variant, seed, toys):
    table, batch, scores, output = toys.problem(seed)
    sharpo, grpo = Sharpo(policy_loss=toys.plain, **{**VARIANTS[variant], "lam": 0.0}), Grpo(policy_loss=toys.plain)
    assert not sharpo.needs_teacher
    ours, theirs = (toys.credited(batch, scores, table, x) for x in (sharpo, grpo))
    assert torch.equal(ours.advantages, theirs.advantages)
    a, b = sharpo.objective(output, scores, ours).loss, grpo.objective(output, scores, theirs).loss
    assert torch.equal(a, b)
    assert torch.equal(*(torch.autograd.grad(x, output.logp)[0] for x in (a, b)))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(5))
def test_unselected_segments_keep_the_base_bit_for_bit(variant, seed, toys):
    table, batch, scores, _ = toys.problem(seed)
    algorithm = Sharpo(policy_loss=toys.plain, **VARIANTS[variant])
    effective = algorithm.credit(table, 0)
    assert torch.equal(effective[~table.selected], table.base[~table.selected])
    if seed == 0 and variant in ("default", "zscore", "turn"):
        assert not torch.equal(effective, table.base)  # the other segments do move
    tokens = toys.credited(batch, scores, table, algorithm).advantages
    base = toys.credited(batch, scores, table, Grpo(policy_loss=toys.plain)).advantages
    alone = batch.action_mask & ~table.selected[batch.segment_index.clamp(min=0)]
    assert torch.equal(tokens[alone], base[alone])
    assert not tokens[~batch.action_mask].any()
    inside = batch.span_mask
    assert torch.equal(tokens[inside], effective[batch.segment_index[inside]].to(tokens.dtype))  # one per segment


def test_without_any_peer_the_table_needs_no_teacher_and_gives_the_base(toys):
    table = toys.segments(GAP, [-0.8] * 3, LENGTH, selected=[False] * 3)
    table = replace(table, student_logp=None, teacher_logp=None)
    algorithm = Sharpo(policy_loss=toys.plain)
    assert torch.equal(algorithm.credit(table, 0), table.base)
    assert algorithm.report(table, table.base)["peer_share"].item() == 0.0


def test_an_unscored_table_is_refused(toys):
    table = replace(toys.segments(GAP, [-0.8] * 3, LENGTH), teacher_logp=None)
    with pytest.raises(ValueError, match="score the table"):
        Sharpo(policy_loss=toys.plain).credit(table, 0)


def test_selection_rules_reach_the_credit(toys):
    table = toys.segments(
        [0.5, -0.5, 0.4, -0.4, 0.3, -0.3], [-1.0, -1.0, 1.0, 1.0, 1.0, 1.0], [2] * 6,
        episode=[0, 0, 1, 1, 2, 2], group=[0, 0, 0, 0, 1, 1], success=[False, False, True, True, True, True],
    )  # fmt: skip
    moved = {
        rule: (Sharpo(policy_loss=toys.plain, select=rule).credit(table, 0) != table.base).tolist()
        for rule in ("has_other_success", "failed_only", "mixed_groups_only")
    }
    assert moved == {
        "has_other_success": [True] * 6,
        "failed_only": [True, True, False, False, False, False],
        "mixed_groups_only": [True, True, True, True, False, False],
    }


def test_sign_modes_reach_the_normaliser(toys):
    # one episode with both signs: a one-sided mode must leave the other side out of Z too
    table = toys.segments([0.5, 0.2, 0.7], [1.0, 1.0, -1.0], [2, 2, 2])
    algorithm = Sharpo(policy_loss=toys.plain, bound=Bound(sign_mode="positive_only"))
    effective = algorithm.credit(table, 0)
    assert effective[2].item() == -1.0
    assert effective[:2].sum().item() == pytest.approx(2.0, abs=1e-6)  # conserved among the selected


def test_lambda_schedule(toys, assert_golden):
    decaying = Sharpo(policy_loss=toys.plain, lambda_schedule="linear_to_zero(4)")
    assert_golden([decaying.lambda_at(i) for i in (0, 1, 4, 9)], [0.2, 0.15, 0.0, 0.0])
    assert Sharpo(policy_loss=toys.plain).lambda_at(10**6) == 0.2
    table = toys.segments(GAP, [-0.8] * 3, LENGTH)
    assert torch.equal(decaying.credit(table, 4), table.base)
    # lambda 0.15: -0.8 (0.85 + 0.15 v), v = [0.6044, 1.2012, 0.9933]
    assert_golden(decaying.credit(table, 1), [-0.7525, -0.8241, -0.7992], printed_decimals=4)


def test_the_span_knob_answers_for_the_hook(toys):
    assert Grpo(policy_loss=toys.plain).span == Sharpo(policy_loss=toys.plain).span == "action"
    assert Sharpo(policy_loss=toys.plain, span="turn").span == "turn"


def test_balance_clip_defaults_to_two_with_gamma():
    assert Balance().factor_clip is None
    assert Balance(gamma=1.0).factor_clip == 2.0
    assert Balance(gamma=1.0, clip=1.5).factor_clip == 1.5
    assert Balance(gamma=1.0, clip=float("inf")).factor_clip == float("inf")


def test_report_of_t_sh_1(toys, assert_golden):
    table = toys.segments(GAP, [-0.8] * 3, LENGTH)
    algorithm = Sharpo(policy_loss=toys.plain)
    report = algorithm.report(table, algorithm.credit(table, 0))
    assert_golden(report["z_mean"], 0.9565, printed_decimals=4)
    assert_golden(report["weight_mean"], 0.8923, printed_decimals=4)  # (0.5781 + 1.1489 + 0.9500)/3
    assert_golden(report["multiplier_max"], 1.0402, printed_decimals=4)
    assert_golden(report["moved_share"], 2 / 3)  # 7.9 %, 4.0 %, 0.13 %
    assert report["multiplier_length_correlation"] > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda **k: Sharpo(lam=1.5, **k), r"algorithm.lam must be in \[0, 1\].*1.5"),
        (lambda **k: Sharpo(lambda_schedule="linear", **k), "algorithm.lambda_schedule.*'linear'"),
        (lambda **k: Sharpo(lambda_schedule="linear_to_zero(0)", **k), "algorithm.lambda_schedule"),
        (lambda **k: Sharpo(span="sentence", **k), "algorithm.span must be one of action"),
        (lambda **k: Sharpo(apply_to="row", **k), "algorithm.apply_to must be one of span, turn"),
        (lambda **k: Sharpo(select="all", **k), "algorithm.select"),
        (lambda **k: Sharpo(gap_norm="max", **k), "algorithm.gap_norm"),
        (lambda **k: Sharpo(baseline=Baseline(scope="x"), **k), "algorithm.baseline.scope"),
        (lambda **_: Bound(kind="relu"), "algorithm.bound.kind"),
        (lambda **_: Bound(sign_mode="both"), "algorithm.bound.sign_mode"),
        (lambda **_: Bound(tau=0.0), "algorithm.bound.tau must be > 0"),
        (lambda **_: Bound(alpha=1.2), "algorithm.bound.alpha must be"),
        (lambda **_: Bound(alpha_clip=0.0), "algorithm.bound.alpha_clip must be"),
        (lambda **_: Balance(rule="mass"), "algorithm.balance.rule must be one of length, none"),
        (lambda **_: Balance(scope="rank"), "algorithm.balance.scope"),
        (lambda **_: Balance(where="after"), "algorithm.balance.where"),
        (lambda **_: Balance(gamma=-1.0), "algorithm.balance.gamma must be >= 0"),
        (lambda **_: Balance(clip=0.5), "algorithm.balance.clip must be >= 1"),
    ],
)
def test_wrong_knobs_name_themselves(make, message, toys):
    with pytest.raises(ConfigError, match=message):
        make(policy_loss=toys.plain)
