"""Group-relative advantages: golden vectors, a loop reference, and the refusal of groups of one."""

import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpo.functional.advantages import group_relative

RETURNS = torch.tensor([10.0, 10.0, 10.0, 0.0, -0.1])  # T1: 3 turns, won; T2: 2 turns, lost, the second one invalid
EPISODE = torch.tensor([0, 0, 0, 1, 1])


def test_t_grpo_1_rows(assert_golden):
    # mu = 29.9/5 = 5.98; squares 3*4.02^2 + 5.98^2 + 6.08^2 = 121.208; sigma = sqrt(121.208/4) = 5.5047
    # 4.02/5.5047 = 0.7303; -5.98/5.5047 = -1.0863; -6.08/5.5047 = -1.1045
    assert_golden(group_relative(RETURNS, EPISODE), [0.7303, 0.7303, 0.7303, -1.0863, -1.1045], printed_decimals=4)


def test_t_grpo_1_trajectories(assert_golden):
    # first turns 10 and 0: mu = 5, sigma = sqrt((25 + 25)/1) = 7.0711; 5/7.0711 = 0.7071; -5.1/7.0711 = -0.7212
    expected = [0.7071, 0.7071, 0.7071, -0.7071, -0.7212]
    assert_golden(group_relative(RETURNS, EPISODE, scope="trajectories"), expected, printed_decimals=4)


def test_t_grpo_1_without_std(assert_golden):
    # 10 - 5.98 = 4.02; 0 - 5.98; -0.1 - 5.98
    expected = [4.02, 4.02, 4.02, -5.98, -6.08]
    assert_golden(group_relative(RETURNS, EPISODE, norm_by_std=False), expected)


def test_t_grpo_2(assert_golden):
    # mu = 20/8 = 2.5; squares 2*56.25 + 6*6.25 = 150; sigma = sqrt(150/7) = 4.6291; 7.5/4.6291, -2.5/4.6291
    returns = torch.tensor([10.0, 10.0] + [0.0] * 6)
    expected = [1.6202, 1.6202] + [-0.5401] * 6
    assert_golden(group_relative(returns, torch.arange(8)), expected, printed_decimals=4)


def test_population_std(assert_golden):
    # sqrt(150/8) = 4.3301; 7.5/4.3301 = 1.7321; -2.5/4.3301 = -0.5774
    returns = torch.tensor([10.0, 10.0] + [0.0] * 6)
    expected = [1.7321, 1.7321] + [-0.5774] * 6
    assert_golden(group_relative(returns, torch.arange(8), correction=0), expected, printed_decimals=4)


@pytest.mark.parametrize("scope", ["rows", "trajectories"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 10.0, -1 / 3])
def test_equal_returns_give_exactly_zero(scope, value, dtype):
    for turns in range(1, 6):  # in fp64 (0.1 + 0.1 + 0.1)/3 is not 0.1
        episode = torch.arange(3).repeat_interleave(turns)
        returns = torch.full((3 * turns,), value, dtype=dtype)
        for norm_by_std in (True, False):
            advantages = group_relative(returns, episode, scope=scope, norm_by_std=norm_by_std)
            assert torch.equal(advantages, torch.zeros_like(returns))


def test_a_penalty_in_a_group_without_spread_is_not_divided_by_epsilon(assert_golden):
    # both first turns 0: no scale, so the penalised second turn keeps its plain difference -0.1
    returns = torch.tensor([0.0, -0.1, 0.0])
    assert_golden(group_relative(returns, torch.tensor([0, 0, 1]), scope="trajectories"), [0.0, -0.1, 0.0])


def _reference_group_relative(returns, episode, group, scope, norm_by_std, correction):
    out = []
    for s, g in zip(returns, group, strict=True):
        members = [i for i in range(len(returns)) if group[i] == g]
        counted = members
        if scope == "trajectories":
            counted = [i for i in members if episode.index(episode[i]) == i]
        values = [returns[i] for i in counted]
        centred = s - statistics.fmean(values)
        if norm_by_std and len(set(values)) > 1:
            spread = statistics.stdev(values) if correction else statistics.pstdev(values)
            centred /= spread + 1e-6
        out.append(centred)
    return out


@pytest.mark.parametrize("scope", ["rows", "trajectories"])
@pytest.mark.parametrize("norm_by_std", [True, False])
@pytest.mark.parametrize("correction", [0, 1])
def test_several_groups_equal_a_python_loop(scope, norm_by_std, correction, assert_golden):
    generator = torch.Generator().manual_seed(5)
    episode = [e for e in range(12) for _ in range(int(torch.randint(1, 5, (1,), generator=generator)))]
    group = [10 * (e // 4) for e in episode]  # group numbers need not be dense
    returns = torch.randint(0, 4, (len(episode),), generator=generator).double()
    ours = group_relative(
        returns, torch.tensor(episode), torch.tensor(group),
        scope=scope, norm_by_std=norm_by_std, correction=correction,
    )  # fmt: skip
    expected = _reference_group_relative(returns.tolist(), episode, group, scope, norm_by_std, correction)
    assert_golden(ours, expected)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 9.9, 10.0]), min_size=1, max_size=4), min_size=2, max_size=6))
def test_permuting_episodes_permutes_advantages(episodes):
    def run(order):
        returns = torch.tensor([x for e in order for x in episodes[e]])
        index = torch.tensor([e for e in order for _ in episodes[e]])
        split = group_relative(returns, index).split([len(episodes[e]) for e in order])
        return dict(zip(order, split, strict=True))

    forward, backward = run(range(len(episodes))), run(list(reversed(range(len(episodes)))))
    for e in range(len(episodes)):
        torch.testing.assert_close(forward[e], backward[e], rtol=0, atol=1e-6)


@pytest.mark.parametrize("group", [None, torch.tensor([0, 0, 1, 1, 2])])
def test_a_group_of_one_is_refused(group):
    episode = torch.zeros(5, dtype=torch.int64) if group is None else torch.tensor([0, 1, 2, 3, 4])
    with pytest.raises(ValueError, match=r"a group has 1 episode\(s\).*G >= 2.*data.sizes.group_size"):
        group_relative(torch.arange(5.0), episode, group)


@pytest.mark.parametrize(("name", "value"), [("scope", "turns"), ("correction", 2)])
def test_unknown_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        group_relative(RETURNS, EPISODE, **{name: value})
