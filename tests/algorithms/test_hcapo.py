"""HCAPO: the test vector, every choice, what the teacher did not read, laws, and a plain loop."""

import math
from dataclasses import replace
from statistics import mean, stdev

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpo.algorithms.baseline import Baseline
from sharpo.algorithms.grpo import Grpo
from sharpo.algorithms.hcapo import Hcapo
from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.batch import Scores
from sharpo.errors import ConfigError
from sharpo.segments import Segments

PLAIN = PolicyLoss()
HCAPO = Hcapo(policy_loss=PLAIN)
NAN = float("nan")


def table(*episodes, base=None, group=None):
    """Each episode is (R, won, [mean log-prob of each turn, None where the teacher did not read it])."""
    rows = [
        (e, k, returned, won, logp) for e, (returned, won, turns) in enumerate(episodes) for k, logp in enumerate(turns)
    ]
    episode, turn = (torch.tensor([row[i] for row in rows]) for i in (0, 1))
    read = torch.tensor([row[4] is not None for row in rows])
    length = torch.arange(len(rows)) % 4 + 1
    logp = torch.tensor([NAN if row[4] is None else row[4] for row in rows])
    return Segments(
        group=torch.zeros_like(episode) if group is None else torch.tensor(group)[episode],
        episode=episode, turn=turn, length=length, success=torch.tensor([row[3] for row in rows]),
        episode_return=torch.tensor([row[2] for row in rows]), hinted=read,
        base=torch.zeros(len(rows)) if base is None else torch.tensor(base), selected=read,
        student_logp=torch.zeros(len(rows)), teacher_logp=logp * length,
    )  # fmt: skip


VECTOR = ((10.0, True, [-0.5, -2.0, -0.1]), (0.0, False, [-1.0, -0.3]))
MACRO = [0.70711] * 3 + [-0.70711] * 2  # R = 10 and 0: mu 5, sigma 7.0711


def test_t_hca_1(assert_golden):
    # pi_h = exp(-0.1), exp(-0.4), exp(-0.02) = 0.9048, 0.6703, 0.9802, mean 0.8518
    # rho = 1.0623, 0.7870 -> 0.8, 1.1508. Q = 10*(0.9025*1.0623, 0.95*0.8, 1.1508) = 9.5871, 7.6, 11.5076; T2: 0, 0
    # mu 5.7389, sigma 5.4180: 0.7103, 0.3435, 1.0647, -1.0592, -1.0592
    credit = HCAPO.credit(table(*VECTOR, base=MACRO), 0)
    assert_golden(credit, [1.4174, 1.0506, 1.7718, -1.7663, -1.7663], printed_decimals=4)


def test_the_population_variance_holds_for_the_second_part_too(assert_golden):
    # Q as in the vector; sigma sqrt((14.8086 + 3.4636 + 33.2777 + 2*32.9354)/5) = 4.8460
    population = replace(HCAPO, baseline=Baseline(scope="trajectories", correction=0))
    micro = [0.7941, 0.3840, 1.1904, -1.1843, -1.1843]
    credit = population.credit(table(*VECTOR, base=MACRO), 0)
    assert_golden(credit, [a + b for a, b in zip(MACRO, micro, strict=True)], printed_decimals=4)


def test_the_macro_part_is_over_episodes(toys, assert_golden):
    group = toys.group([(0.0, 0.0), (0.0, 0.0), (10.0, 0.0)], [(0.0, 0.0)] * 2)
    assert_golden(HCAPO.base_advantages(group), MACRO)


def test_smoothing_by_hand(assert_golden):
    # 9.5871, 7.6, 11.5076 -> (9.5871 + 7.6)/2 = 8.5936, (7.6 + 11.5076)/2 = 9.5538, 11.5076; 0, 0
    # mu 29.6549/5 = 5.9310; squares 7.0898, 13.1246, 31.0990, 2*35.1766 -> sigma sqrt(121.6666/4) = 5.5151
    credit = replace(HCAPO, smoothing=True).credit(table(*VECTOR, base=MACRO), 0)
    micro = [0.48280, 0.65691, 1.01116, -1.07541, -1.07541]
    assert_golden(credit, [a + b for a, b in zip(MACRO, micro, strict=True)], printed_decimals=4)


def test_micro_scope_turn_compares_turns_of_one_number(assert_golden):
    # 9.5871 with 0, 7.6 with 0, 11.5076 alone
    credit = replace(HCAPO, micro_scope="turn").credit(table(*VECTOR, base=MACRO), 0)
    assert_golden(credit, [1.41421, 1.41421, 0.70711, -1.41421, -1.41421])


def test_a_group_that_always_succeeds_is_credited_and_no_harm_is_done(assert_golden):
    # all pi alike: rho 1. Q = 10 | 9.5, 10: mu 9.8333, sigma sqrt((2*0.02778 + 0.11111)/2) = 0.288675
    segments = table((10.0, True, [-1.0]), (10.0, True, [-1.0, -1.0]))
    assert HCAPO.teaches_uncredited
    assert_golden(HCAPO.credit(segments, 0), [0.57735, 0.0, 0.57735])
    assert_golden(replace(HCAPO, no_harm=False).credit(segments, 0), [0.57735, -1.15470, 0.57735])
    plain = replace(HCAPO, no_harm=False, baseline=Baseline(scope="trajectories", norm_by_std=False))
    assert_golden(plain.credit(segments, 0), [0.16667, -0.33333, 0.16667])


def test_a_group_whose_returns_are_all_0_is_not_read_and_loses_nothing_by_it():
    lost = ((0.0, False, [-0.5, -2.0]), (0.0, False, [-1.0]))
    segments = table(*VECTOR, *lost, base=[*MACRO, 0.0, -0.1, 0.1], group=[0, 0, 1, 1])
    assert HCAPO.teacher_reads(segments).tolist() == [True] * 5 + [False] * 3
    unread = table(*VECTOR, (0.0, False, [None, None]), (0.0, False, [None]), base=[*MACRO, 0.0, -0.1, 0.1],
                   group=[0, 0, 1, 1])  # fmt: skip
    assert torch.equal(HCAPO.credit(segments, 0), HCAPO.credit(unread, 0))
    penalised = replace(segments, episode_return=torch.tensor([0.0] * 5 + [0.0, 0.0, -1.0]))
    assert HCAPO.teacher_reads(penalised).tolist() == [False] * 5 + [True] * 3


def test_no_harm_is_for_successes_only(assert_golden):
    # a graded return: the failed episode has R = 5 and falls below the mean
    segments = table((10.0, True, [-1.0]), (5.0, False, [-1.0]))
    assert_golden(HCAPO.credit(segments, 0), [0.70711, -0.70711])


def test_knobs_of_the_ratio(assert_golden):
    # T = 1: pi = e^-0.5, e^-2, e^-0.1 = 0.60653, 0.13534, 0.90484, mean 0.54890: 1.10499, 0.24656, 1.64846
    segments = table(*VECTOR, base=MACRO)
    wide = replace(HCAPO, temperature=1.0, ratio_low=0.5, ratio_high=1.5, gamma=1.0)
    # Q = 11.0499, 5, 15, 0, 0; mu 6.20998, sigma sqrt((23.4249 + 1.4641 + 77.2645 + 2*38.5639)/4) = 6.69480
    micro = [0.72294, -0.18073, 1.31296, -0.92758, -0.92758]
    credit = replace(wide, no_harm=False).credit(segments, 0)
    assert_golden(credit, [a + b for a, b in zip(MACRO, micro, strict=True)], printed_decimals=4)
    assert_golden(wide.credit(segments, 0)[1], MACRO[1])  # no harm
    half = replace(wide, no_harm=False, omega=0.5).credit(segments, 0)
    assert_golden(half, [a + b / 2 for a, b in zip(MACRO, micro, strict=True)], printed_decimals=4)


def test_a_turn_that_was_not_read_has_the_ratio_one(assert_golden):
    # T1's second turn has no action: pi over the other two, mean (0.904837 + 0.980199)/2 = 0.942518
    # rho = 0.960022, 1, 1.039978; Q = 9.025*0.960022 = 8.664195, 9.5, 10.39978 | 0, 0
    segments = table((10.0, True, [-0.5, None, -0.1]), (0.0, False, [-1.0, -1.0]))
    q = torch.tensor([8.664195, 9.5, 10.39978, 0.0, 0.0], dtype=torch.float64)
    assert_golden(HCAPO.credit(segments, 0), ((q - q.mean()) / (q.std() + 1e-6)).float())


def test_an_episode_that_was_not_read_keeps_its_base_and_stays_out_of_the_statistics():
    read = table(*VECTOR, base=MACRO)
    more = table(*VECTOR, (10.0, True, [None, None]), base=[*MACRO, 0.3, 0.1])
    credit = HCAPO.credit(more, 0)
    assert torch.equal(credit[5:], more.base[5:])
    assert torch.equal(credit[:5], HCAPO.credit(read, 0))
    unread = table((10.0, True, [None]), (0.0, False, [None]), base=[1.0, -1.0])
    assert HCAPO.credit(unread, 0) is unread.base


def test_without_omega_it_is_grpo_and_needs_no_teacher():
    off = replace(HCAPO, omega=0.0)
    segments = replace(table(*VECTOR, base=MACRO), teacher_logp=None)
    assert off.credit(segments, 0) is segments.base
    assert not off.needs_teacher
    assert HCAPO.needs_teacher
    with pytest.raises(ValueError, match="teacher_logp"):
        HCAPO.credit(segments, 0)


def _reference_hcapo(segments, algorithm):
    names = ("group", "episode", "turn", "length", "success", "episode_return", "selected", "base", "teacher_logp")
    columns = [getattr(segments, name).tolist() for name in names]
    rows = list(zip(*columns, strict=True))
    q = {}
    for i, (_, e, k, n, _, returned, read, _, logp) in enumerate(rows):
        others = [math.exp(r[8] / r[3] / algorithm.temperature) for r in rows if r[1] == e and r[6]]
        rho = math.exp(logp / n / algorithm.temperature) / mean(others) if read else 1.0
        rho = min(max(rho, algorithm.ratio_low), algorithm.ratio_high)
        last = max(r[2] for r in rows if r[1] == e)
        q[i] = rho * algorithm.gamma ** (last - k) * returned
    if algorithm.smoothing:
        following = {(r[1], r[2]): i for i, r in enumerate(rows)}
        q = {
            i: 0.5 * q[i] + 0.5 * q[following[rows[i][1], rows[i][2] + 1]]
            if (rows[i][1], rows[i][2] + 1) in following
            else q[i]
            for i in q
        }
    hinted = {r[1] for r in rows if r[6]}
    out = []
    for i, (g, e, k, _, won, _, _, base, _) in enumerate(rows):
        beside = [
            q[j] for j, r in enumerate(rows)
            if r[0] == g and r[1] in hinted and (algorithm.micro_scope == "group" or r[2] == k)
        ]  # fmt: skip
        micro = 0.0
        if e in hinted and max(beside) - min(beside) > 1e-9:
            micro = (q[i] - mean(beside)) / (stdev(beside) + 1e-6)
        if algorithm.no_harm and won:
            micro = max(micro, 0.0)
        out.append(base + algorithm.omega * micro)
    return out


def random_table(seed):
    generator = torch.Generator().manual_seed(seed)

    def draw(n):
        return int(torch.randint(n, (1,), generator=generator))

    episodes, group = [], []
    for e in range(2 + draw(4)):
        won = draw(2) == 1
        turns = [None if draw(5) == 0 else -3 * float(torch.rand(1, generator=generator)) for _ in range(1 + draw(4))]
        episodes.append((10.0 if won else float(draw(2)), won, turns))
        group.append(e // 3)
    size = sum(len(turns) for _, _, turns in episodes)
    return table(*episodes, base=torch.randn(size, generator=generator).tolist(), group=group)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.booleans(), st.sampled_from(["group", "turn"]))
def test_equals_a_plain_loop(seed, smoothing, no_harm, micro_scope):
    segments = random_table(seed)
    algorithm = replace(
        HCAPO, smoothing=smoothing, no_harm=no_harm, micro_scope=micro_scope, temperature=2.0, omega=0.7
    )
    expected = torch.tensor(_reference_hcapo(segments, algorithm))
    torch.testing.assert_close(algorithm.credit(segments, 0), expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_the_order_of_rows_does_not_matter(seed):
    segments = random_table(seed)
    moved = torch.randperm(len(segments), generator=torch.Generator().manual_seed(seed))
    columns = {name: getattr(segments, name)[moved] for name in segments.__dataclass_fields__}
    algorithm = replace(HCAPO, smoothing=True)
    torch.testing.assert_close(algorithm.credit(Segments(**columns), 0), algorithm.credit(segments, 0)[moved])


def test_every_sampled_token_of_a_turn_gets_its_advantage(toys):
    segments, batch, scores, _ = toys.problem(3)
    credit = HCAPO.credit(segments, 0)
    grid = HCAPO.token_advantages(batch, Scores(scores.old_logp), segments, credit, 0)
    index = batch.segment_index.clamp(min=0)
    assert torch.equal(grid, torch.where(batch.action_mask, credit[index], torch.zeros(())))
    assert (batch.action_mask & ~batch.span_mask).any()


def test_the_report_shows_the_ratio(assert_golden):
    report = HCAPO.report(table(*VECTOR, base=MACRO), torch.tensor(MACRO))
    # rho 1.062283, 0.8, 1.150758 | pi e^-0.2, e^-0.06 = 0.818731, 0.941765, mean 0.880248: 0.930114, 1.069886
    assert_golden(report["weight_mean"], (1.062283 + 0.8 + 1.150758 + 2) / 5)
    off = replace(HCAPO, omega=0.0).report(table(*VECTOR, base=MACRO), torch.tensor(MACRO))
    assert set(off) == set(report)


def test_the_defaults_are_the_published_values():
    assert (HCAPO.temperature, HCAPO.ratio_low, HCAPO.ratio_high, HCAPO.gamma, HCAPO.omega) == (
        5.0,
        0.8,
        1.2,
        0.95,
        1.0,
    )
    assert HCAPO.span == "turn"
    assert HCAPO.baseline == Baseline(scope="trajectories")
    assert isinstance(HCAPO, Grpo)


@pytest.mark.parametrize(
    ("knob", "value"),
    [("temperature", 0.0), ("ratio_low", 1.1), ("ratio_high", 0.9), ("gamma", 0.0), ("omega", -1.0), ("span", "all"),
     ("micro_scope", "batch")],
)  # fmt: skip
def test_wrong_knobs_name_themselves(knob, value):
    with pytest.raises(ConfigError, match=rf"algorithm\..*{knob}.*{value}"):
        replace(HCAPO, **{knob: value})
