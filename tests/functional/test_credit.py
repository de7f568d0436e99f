"""SHARPO's four steps: the worked examples T-SH-1 to T-SH-6 and T-SH-8, loop references and properties."""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpo.functional.credit import (
    bounded_weight,
    interpolate,
    length_balance,
    length_factor,
    mean_gap,
    mix,
    normalize_gap,
    normalizer,
    select_segments,
    sign_selected,
)
from sharpo.functional.token_credit import equal_step_factor

LENGTH = torch.tensor([4, 8, 4])
GAP = torch.tensor([0.9, -0.3, 0.1])
YES = torch.ones(3, dtype=torch.bool)
ONE_EPISODE = torch.zeros(3, dtype=torch.int64)


def advantages(a):
    return torch.full((3,), a)


def weights(a, **knobs):
    return bounded_weight(GAP, advantages(a), YES, ONE_EPISODE, **knobs)


def balanced(w, **knobs):
    return length_balance(w, LENGTH, YES, ONE_EPISODE, **knobs)


def test_t_sh_1_failed_episode(assert_golden):
    # w = 2 sigma(-gap): 2 sigma(-0.9) = 0.5781, 2 sigma(0.3) = 1.1489, 2 sigma(-0.1) = 0.9500
    # Z = (4*0.5781 + 8*1.1489 + 4*0.9500)/16 = 15.3036/16 = 0.9565; v = w/Z; A_eff = -0.8 (0.8 + 0.2 v)
    w = weights(-0.8)
    assert_golden(w, [0.5781, 1.1489, 0.9500], printed_decimals=4)
    assert_golden(normalizer(w, LENGTH, YES, ONE_EPISODE), [0.9565], printed_decimals=4)
    v = balanced(w)
    assert_golden(v, [0.6044, 1.2012, 0.9933], printed_decimals=4)
    effective = interpolate(advantages(-0.8), v, 0.2)
    assert_golden(effective / -0.8, [0.9209, 1.0402, 0.9987], printed_decimals=4)
    assert_golden(effective, [-0.7367, -0.8322, -0.7989], printed_decimals=4)
    assert_golden((LENGTH * effective).sum(), -12.8)  # 16 * -0.8: credit moves, none is created
    weak = interpolate(advantages(-0.8), v, 0.05)
    assert_golden(weak / -0.8, [0.9802, 1.0101, 0.9997], printed_decimals=4)
    assert_golden(weak, [-0.7842, -0.8080, -0.7997], printed_decimals=4)


def test_t_sh_2_successful_episode(assert_golden):
    # w = 2 sigma(gap) = 2 - the weights above; Z = 2 - 0.9565 = 1.0435
    w = weights(1.2)
    assert_golden(w, [1.4219, 0.8511, 1.0500], printed_decimals=4)
    assert_golden(normalizer(w, LENGTH, YES, ONE_EPISODE), [1.0435], printed_decimals=4)
    v = balanced(w)
    assert_golden(v, [1.3626, 0.8156, 1.0062], printed_decimals=4)
    effective = interpolate(advantages(1.2), v, 0.2)
    assert_golden(effective / 1.2, [1.0725, 0.9631, 1.0012], printed_decimals=4)
    assert_golden(effective, [1.2870, 1.1557, 1.2015], printed_decimals=4)
    assert_golden((LENGTH * effective).sum(), 19.2)  # 16 * 1.2


def test_one_sided_modes_leave_a_zero_advantage_alone():
    base = torch.tensor([1.0, 0.0, -1.0])
    assert sign_selected(YES, base, "positive_only").tolist() == [True, False, False]
    assert sign_selected(YES, base, "negative_only").tolist() == [False, False, True]
    assert sign_selected(YES, base, "outcome").tolist() == [True, True, True]


def test_t_sh_3_without_balancing(assert_golden):
    # -0.8 (0.8 + 0.2*0.5781) = -0.7325; 1.2 (0.8 + 0.2*1.4219) = 1.3013
    failed = interpolate(advantages(-0.8), weights(-0.8), 0.2)
    won = interpolate(advantages(1.2), weights(1.2), 0.2)
    assert_golden(failed, [-0.7325, -0.8238, -0.7920], printed_decimals=4)
    assert_golden(won, [1.3013, 1.1643, 1.2120], printed_decimals=4)


T_SH_4 = {
    # alpha_clip 0.2: 0.5781 -> 0.8; Z = (3.2 + 9.1912 + 3.8)/16 = 1.0120
    "clip, failed": (-0.8, {"alpha_clip": 0.2}, [0.8, 1.1489, 0.95], 1.0120, [-0.7665, -0.8217, -0.7902]),
    # 1.4219 -> 1.2; Z = (4.8 + 6.8088 + 4.2)/16 = 0.9880
    "clip, won": (1.2, {"alpha_clip": 0.2}, [1.2, 0.8511, 1.05], 0.9880, [1.2515, 1.1667, 1.2150]),
    # e^-0.9 = 0.4066 -> 0.8; e^0.3 = 1.3499 -> 1.2; e^-0.1 = 0.9048
    "exp_clip": (-0.8, {"bound": "exp_clip", "alpha": 0.2}, [0.8, 1.2, 0.9048], 1.0262, [-0.7647, -0.8271, -0.7811]),
    # 1 + 0.5 tanh(-0.9) = 1 - 0.5*0.7163; 1 + 0.5*0.2913; 1 - 0.5*0.0997
    "tanh": (-0.8, {"bound": "tanh", "alpha": 0.5}, [0.6419, 1.1457, 0.9502], 0.9708, [-0.7458, -0.8288, -0.7966]),
    # 1 - 0.9 -> 0.8; 1 + 0.3 -> 1.2; 1 - 0.1; Z = (3.2 + 9.6 + 3.6)/16 = 1.025; v = 0.7805, 1.1707, 0.8780
    "linear_clip": (-0.8, {"bound": "linear_clip"}, [0.8, 1.2, 0.9], 1.025, [-0.7649, -0.8273, -0.7805]),
}


@pytest.mark.parametrize("case", T_SH_4)
def test_t_sh_4_other_bounds(case, assert_golden):
    a, knobs, w, z, effective = T_SH_4[case]
    ours = weights(a, **knobs)
    assert_golden(ours, w, printed_decimals=4)
    assert_golden(normalizer(ours, LENGTH, YES, ONE_EPISODE), [z], printed_decimals=4)
    assert_golden(interpolate(advantages(a), balanced(ours), 0.2), effective, printed_decimals=4)


def test_zscore_bound(assert_golden):
    # gap [0.1225, -0.0480, 0.2114]: mean 0.0953; centred [0.0272, -0.1433, 0.1161]; population std 0.1076
    # z = [0.2526, -1.3319, 1.0793]; 1 + 0.2 z = [1.0505, 0.7336 -> 0.8, 1.2159 -> 1.2]
    gap = torch.tensor([0.1225, -0.0480, 0.2114])
    w = bounded_weight(gap, advantages(1.0), YES, ONE_EPISODE, bound="zscore_clip", alpha=0.2)
    assert_golden(w, [1.0505, 0.8, 1.2], printed_decimals=4)
    failed = bounded_weight(gap, advantages(-1.0), YES, ONE_EPISODE, bound="zscore_clip", alpha=0.2)
    assert_golden(failed, [0.9495, 1.2, 0.8], printed_decimals=4)  # 1 - 0.2 z
    flat = bounded_weight(torch.full((3,), 0.7), advantages(1.0), YES, ONE_EPISODE, bound="zscore_clip")
    assert torch.equal(flat, torch.ones(3))


def test_t_sh_5_equal_budget_for_each_segment(assert_golden):
    # mean length 16/3; b = [1.3333, 0.6667, 1.3333]; wb = [0.7708, 0.7660, 1.2667]; Z = (3.0833 + 6.1276 + 5.0667)/16
    w = weights(-0.8)
    b = length_factor(LENGTH, YES, ONE_EPISODE, gamma=1.0, clip=2.0)
    assert_golden(b, [1.3333, 0.6667, 1.3333], printed_decimals=4)
    assert_golden(normalizer(w * b, LENGTH, YES, ONE_EPISODE), [0.8923], printed_decimals=4)
    v = balanced(w, gamma=1.0, clip=2.0)
    assert_golden(v, [0.8638, 0.8583, 1.4195], printed_decimals=4)
    assert_golden(LENGTH * v / (LENGTH * v).sum(), w / w.sum())  # a segment's total is in proportion to its weight
    effective = interpolate(advantages(-0.8), v, 0.2)
    assert_golden(effective, [-0.7782, -0.7773, -0.8671], printed_decimals=4)
    assert_golden((LENGTH * effective).sum(), -12.8)
    loose = interpolate(advantages(-0.8), balanced(w, gamma=1.0, clip=2.0, normalize=False), 0.2)
    assert_golden(loose, [-0.7633, -0.7625, -0.8427], printed_decimals=4)


def test_length_factor_clip(assert_golden):
    # lengths 1, 9: mean 5; (5/1)^1 = 5 -> 2; (5/9)^1 = 0.5556. gamma 0.5: sqrt(5) = 2.2361 -> 2, sqrt(0.5556) = 0.7454
    length, yes, index = torch.tensor([1, 9]), torch.ones(2, dtype=torch.bool), torch.zeros(2, dtype=torch.int64)
    assert_golden(length_factor(length, yes, index, gamma=1.0, clip=2.0), [2.0, 0.5556], printed_decimals=4)
    assert_golden(length_factor(length, yes, index, gamma=0.5, clip=2.0), [2.0, 0.7454], printed_decimals=4)
    assert_golden(length_factor(length, yes, index, gamma=1.0), [5.0, 0.5556], printed_decimals=4)
    assert_golden(
        length_factor(length.flip(0) * 9, yes, index, gamma=2.0, clip=2.0), [0.5, 2.0]
    )  # (5/9)^2 = 0.31 -> 1/2


def test_t_sh_6_the_mean_abs_rule_erases_constant_weights(assert_golden):
    # target = mean of |A_eff| = (0.7325 + 0.8238 + 0.7920)/3 = 0.7828; c = target/|A_eff|: everything becomes 0.7828
    effective = interpolate(advantages(-0.8), weights(-0.8), 0.2)
    factor = equal_step_factor(mix(weights(-0.8), 0.2), YES, ONE_EPISODE)
    assert_golden(factor, [1.0686, 0.9502, 0.9883], printed_decimals=4)
    assert_golden(effective * factor, [-0.7828, -0.7828, -0.7828], printed_decimals=4)


def test_t_sh_8_unsigned_punishes_the_helpful_segment_more(assert_golden):
    # -0.8 (0.8 + 0.2*1.4219) = -0.8675: the segment hindsight likes best gets the largest penalty
    unsigned = interpolate(advantages(-0.8), weights(-0.8, sign_mode="unsigned"), 0.2)
    assert_golden(unsigned, [-0.8675, -0.7762, -0.8080], printed_decimals=4)
    signed = interpolate(advantages(-0.8), weights(-0.8), 0.2)
    assert signed[0] > signed[1]
    assert unsigned[0] < unsigned[1]


def test_one_sided_sign_modes_leave_the_other_side_alone(assert_golden):
    base, yes = torch.tensor([1.0, -1.0, 0.0]), YES
    gap = torch.full((3,), 0.9)
    positive = bounded_weight(gap, base, yes, ONE_EPISODE, sign_mode="positive_only")
    negative = bounded_weight(gap, base, yes, ONE_EPISODE, sign_mode="negative_only")
    assert_golden(positive, [1.4219, 1.0, 1.0], printed_decimals=4)  # 2 sigma(0.9)
    assert_golden(negative, [1.0, 0.5781, 1.0], printed_decimals=4)  # 2 sigma(-0.9)


def test_tau_and_the_clamp(assert_golden):
    # 2 sigma(2 * 0.9) = 1.7163
    assert_golden(weights(1.0, tau=2.0)[0], 1.7163, printed_decimals=4)
    far = bounded_weight(torch.tensor([1e30]), torch.tensor([-1.0]), YES[:1], ONE_EPISODE[:1])
    assert far.item() == 2.0 * torch.sigmoid(torch.tensor(-20.0)).item() > 0.0


def test_mean_gap(assert_golden):
    # (-1 - -3)/4 = 0.5; (-2 - -1)/2 = -0.5; not selected: 0 whatever the scores
    nan = float("nan")
    gap = mean_gap(
        torch.tensor([-3.0, -1.0, nan, 5.0]),
        torch.tensor([-1.0, -2.0, nan, float("inf")]),
        torch.tensor([4, 2, 0, 0]),
        torch.tensor([True, True, False, False]),
    )
    assert_golden(gap, [0.5, -0.5, 0.0, 0.0])


@pytest.mark.parametrize(
    ("teacher", "length", "message"),
    [(float("nan"), 2, "NaN or infinite"), (float("-inf"), 2, "NaN or infinite"), (-1.0, 0, "length 0")],
)
def test_mean_gap_refuses_selected_nonsense(teacher, length, message):
    with pytest.raises(ValueError, match=message):
        mean_gap(torch.tensor([-1.0]), torch.tensor([teacher]), torch.tensor([length]), YES[:1])


def test_gap_norms(assert_golden):
    gap, length = torch.tensor([0.4, -0.2, 0.6, 9.0]), torch.tensor([1, 3, 2, 5])
    selected = torch.tensor([True, True, True, False])
    group, episode = torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 1, 1])
    args = (gap.where(selected, torch.zeros(4)), length, selected, group, episode)
    assert_golden(normalize_gap(*args, "none"), [0.4, -0.2, 0.6, 0.0])
    # mean |gap| of the selected = (0.4 + 0.2 + 0.6)/3 = 0.4
    assert_golden(normalize_gap(*args, "group_mean_abs"), [1.0, -0.5, 1.5, 0.0])
    # episode 0: (1*0.4 - 3*0.2)/4 = -0.05; episode 1: 0.6
    assert_golden(normalize_gap(*args, "traj_center"), [0.45, -0.15, 0.0, 0.0])


def test_selection_rules():
    selected = torch.tensor([True, False, True, True, True])
    success = torch.tensor([True, False, False, True, True])
    group = torch.tensor([0, 0, 0, 1, 1])
    assert select_segments(selected, success, group).tolist() == [True, False, True, True, True]
    assert select_segments(selected, success, group, "failed_only").tolist() == [False, False, True, False, False]
    assert select_segments(selected, success, group, "mixed_groups_only").tolist() == [True, False, True, False, False]


@pytest.mark.parametrize(
    "call",
    [
        lambda: select_segments(YES, YES, ONE_EPISODE, "all"),
        lambda: weights(1.0, bound="relu"),
        lambda: weights(1.0, sign_mode="both"),
        lambda: normalize_gap(GAP, LENGTH, YES, ONE_EPISODE, ONE_EPISODE, "max"),
    ],
)
def test_unknown_names_are_refused(call):
    with pytest.raises(ValueError, match="must be one of"):
        call()


def _reference_credit(gap, base, length, selected, episode, lam, gamma, clip):
    out = []
    for k in range(len(gap)):
        if not selected[k]:
            out.append(base[k])
            continue
        peers = [j for j in range(len(gap)) if selected[j] and episode[j] == episode[k]]

        def weight(j):
            return 2 / (1 + math.exp(-math.copysign(1, base[j]) * gap[j]))

        def factor(j, peers=peers):
            mean = statistics.fmean(length[i] for i in peers)
            return min(max((mean / length[j]) ** gamma, 1 / clip), clip)

        z = sum(length[j] * weight(j) * factor(j) for j in peers) / sum(length[j] for j in peers)
        out.append(base[k] * ((1 - lam) + lam * weight(k) * factor(k) / z))
    return out


def _random_table(seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    episode = torch.arange(10).repeat_interleave(torch.randint(1, 6, (10,), generator=generator))
    s = len(episode)
    return {
        "gap": torch.randn(s, generator=generator, dtype=dtype),
        "base": torch.randn(s, generator=generator, dtype=dtype),
        "length": torch.randint(1, 30, (s,), generator=generator),
        "selected": torch.rand(s, generator=generator) < 0.7,
        "episode": episode,
    }


def _credit(gap, base, length, selected, episode, lam=0.2, gamma=0.0, clip=2.0):
    gap = gap.where(selected, torch.zeros_like(gap))
    v = length_balance(bounded_weight(gap, base, selected, episode), length, selected, episode, gamma=gamma, clip=clip)
    return interpolate(base, v, lam)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_random_tables_equal_a_python_loop(gamma, seed, assert_golden):
    table = _random_table(seed)
    expected = _reference_credit(*(x.tolist() for x in table.values()), 0.3, gamma, 2.0)
    assert_golden(_credit(**table, lam=0.3, gamma=gamma), expected)


seeds = st.integers(0, 10**6)
properties = settings(max_examples=60, deadline=None, derandomize=True)


@properties
@given(seeds, st.floats(0, 1), st.floats(0, 2))
def test_lambda_zero_and_unselected_segments_give_the_base_bit_for_bit(seed, lam, gamma):
    table = _random_table(seed, torch.float32)
    assert torch.equal(_credit(**table, lam=0.0, gamma=gamma), table["base"])
    left = ~table["selected"]
    assert torch.equal(_credit(**table, lam=lam, gamma=gamma)[left], table["base"][left])


@properties
@given(seeds, st.floats(0, 1))
def test_zero_gap_gives_the_base_bit_for_bit(seed, lam):
    table = _random_table(seed, torch.float32)
    table["gap"] = torch.zeros_like(table["gap"])
    assert torch.equal(_credit(**table, lam=lam), table["base"])


@properties
@given(seeds, st.floats(0, 1))
def test_equal_gaps_in_an_episode_give_the_base(seed, lam):
    table = _random_table(seed)
    for name in ("gap", "base"):
        table[name] = table[name][table["episode"]]  # one number for each episode
    torch.testing.assert_close(_credit(**table, lam=lam), table["base"], rtol=0, atol=1e-12)


@properties
@given(seeds, st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]))
def test_the_sign_of_the_base_advantage_is_kept(seed, lam, gamma):
    table = _random_table(seed, torch.float32)
    table["gap"] *= 30  # saturates the bound
    effective = _credit(**table, lam=lam, gamma=gamma)
    assert (effective * table["base"] >= 0).all()
    assert lam > 0.99 or torch.equal(effective.sign(), table["base"].sign())


@properties
@given(seeds, st.sampled_from(["sigmoid2", "exp_clip", "tanh", "linear_clip", "zscore_clip"]), st.floats(0.01, 1.0))
def test_weights_stay_within_their_bound(seed, bound, alpha):
    table = _random_table(seed)
    w = bounded_weight(100 * table["gap"], table["base"], table["selected"], table["episode"], bound=bound, alpha=alpha)
    width = 1.0 if bound == "sigmoid2" else alpha
    assert ((w >= 1 - width - 1e-12) & (w <= 1 + width + 1e-12)).all()
    clipped = bounded_weight(
        100 * table["gap"],
        table["base"],
        table["selected"],
        table["episode"],
        bound=bound,
        alpha=alpha,
        alpha_clip=0.05,
    )
    assert ((clipped >= 0.95 - 1e-12) & (clipped <= 1.05 + 1e-12)).all()


@properties
@given(seeds, st.floats(0, 1), st.sampled_from([0.0, 0.7, 1.0]))
def test_credit_moves_inside_an_episode_and_none_is_created(seed, lam, gamma):
    table = _random_table(seed)
    table["base"] = torch.randn(10, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)[
        table["episode"]
    ]
    moved = table["length"] * (_credit(**table, lam=lam, gamma=gamma) - table["base"])
    totals = torch.zeros(10, dtype=torch.float64).index_add(0, table["episode"], moved)
    assert totals.abs().max() < 1e-9


@properties
@given(seeds, st.floats(0, 1))
def test_permuting_episodes_permutes_the_credit(seed, lam):
    table = _random_table(seed)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(seed))
    rows = torch.cat([(table["episode"] == e).nonzero().flatten() for e in order])
    permuted = {name: x[rows] for name, x in table.items()}
    torch.testing.assert_close(_credit(**permuted, lam=lam), _credit(**table, lam=lam)[rows], rtol=0, atol=1e-12)


def test_balance_in_wider_scopes(assert_golden):
    # two episodes, one token each, weights 0.5 and 1.5: alone v = 1, 1; together Z = 1 and v = w
    w, n, yes = torch.tensor([0.5, 1.5]), torch.tensor([1, 1]), torch.ones(2, dtype=torch.bool)
    assert_golden(length_balance(w, n, yes, torch.tensor([0, 1])), [1.0, 1.0])
    assert_golden(length_balance(w, n, yes, torch.tensor([0, 0])), [0.5, 1.5])


def test_the_normalizer_has_a_floor():
    z = normalizer(torch.zeros(2), torch.tensor([3, 4]), torch.tensor([True, True]), torch.tensor([0, 2]))
    assert z.tolist() == pytest.approx([1e-6, 1.0, 1e-6])


def test_no_gradient_passes_through_the_evidence():
    gap, base = GAP.clone().requires_grad_(), advantages(1.0).requires_grad_()
    assert not bounded_weight(gap, base, YES, ONE_EPISODE).requires_grad
    assert not mean_gap(gap, gap * 2, LENGTH, YES).requires_grad


def test_an_empty_table():
    none, index = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    yes = torch.zeros(0, dtype=torch.bool)
    w = bounded_weight(mean_gap(none, none, index, yes), none, yes, index)
    assert interpolate(none, length_balance(w, index, yes, index, gamma=1.0), 0.2).shape == (0,)
