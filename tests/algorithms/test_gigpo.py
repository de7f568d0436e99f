"""GiGPO: the test vector in both modes, penalties, anchors, laws, and a plain loop."""

from dataclasses import replace
from statistics import mean, stdev

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stories import random_story, shuffled, story, vector_story

from sharpo.algorithms.baseline import Baseline
from sharpo.algorithms.gigpo import Gigpo, anchor, next_anchor
from sharpo.algorithms.grpo import Grpo
from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.errors import ConfigError

PLAIN = PolicyLoss()
MEAN_NORM = Baseline(norm_by_std=False)


def test_t_gig_1(assert_golden):
    # R: 0.95*10 = 9.5, 10; 0, 0, 0. A^E over rows: mu 4, sigma sqrt((2*36 + 3*16)/4) = 5.4772: 1.0954, -0.7303
    # A^S: s0 has 9.5 and 0: mu 4.75, sigma 6.7175: +-0.7071; s1 alone: 0; s2 has 0 and 0: 0
    full = Gigpo(policy_loss=PLAIN).base_advantages(vector_story())
    assert_golden(full, [1.8026, 1.0954, -1.4374, -0.7303, -0.7303], printed_decimals=4)
    # mean_norm: A^E 6 and -4, A^S 4.75 and -4.75
    plain = Gigpo(policy_loss=PLAIN, baseline=MEAN_NORM).base_advantages(vector_story())
    assert_golden(plain, [10.75, 6.0, -8.75, -4.0, -4.0])


def test_the_population_variance_holds_for_both_parts(assert_golden):
    # A^E: sigma sqrt(120/5) = 4.898979: 1.224745, -0.816497; s0: sigma 4.75: +-1
    full = Gigpo(policy_loss=PLAIN, baseline=Baseline(correction=0)).base_advantages(vector_story())
    assert_golden(full, [2.224745, 1.224745, -1.816497, -0.816497, -0.816497])


def test_omega_scales_the_step_part(assert_golden):
    half = Gigpo(policy_loss=PLAIN, baseline=MEAN_NORM, omega=0.5).base_advantages(vector_story())
    assert_golden(half, [8.375, 6.0, -6.375, -4.0, -4.0])


def test_a_penalty_is_taken_from_its_own_turn_after_discounting(assert_golden):
    # gamma 0.5. T1: 0, 10 -> R 5, 10. T2: s0, then s0 with a penalty of 2 -> R 0, 0 - 2 (the first turn keeps 0)
    group = story([("s0", "a", "s1"), ("s1", "b", "won", 10.0)], [("s0", "c", "s0"), ("s0", None, "s0", 0.0, 2.0)])
    algorithm = Gigpo(policy_loss=PLAIN, baseline=MEAN_NORM, gamma=0.5)
    values, anchors = algorithm.steps(group)
    assert_golden(values, [5.0, 10.0, 0.0, -2.0])
    assert anchors.tolist() == [0, 1, 0, 0]
    # A^E: S = 10, 10, 0, -2, mu 4.5; A^S at s0: mu 1: 4, -1, -3
    assert_golden(algorithm.base_advantages(group), [9.5, 5.5, -5.5, -9.5])


def test_an_anchor_is_the_observation_with_one_space_for_any_blank():
    group = story([(" You see\n\na  mug 1. ", "a", "there\tit is", 1.0)], [("You see a mug 1.", "b", "")])
    first, second = (episode.turns[0] for episode in group.episodes)
    assert anchor(first) == anchor(second) == "You see a mug 1."
    assert next_anchor(first) == "there it is"
    assert Gigpo(policy_loss=PLAIN).steps(group)[1].tolist() == [0, 0]


def test_similar_texts_become_one_anchor_when_asked():
    group = story([("You see a mug 1 on the desk.", "a", "won", 10.0)], [("You see a mug 2 on the desk.", "b", "")])
    exact = Gigpo(policy_loss=PLAIN, baseline=MEAN_NORM)
    assert exact.base_advantages(group).tolist() == [5.0, -5.0]
    alike = replace(exact, anchor_similarity=0.95)
    assert alike.base_advantages(group).tolist() == [10.0, -10.0]


def _reference_gigpo(group, gamma, omega, norm_by_std):
    turns = [turn for episode in group.episodes for turn in episode.turns]
    totals, returns = [], []
    for episode in group.episodes:
        for k, turn in enumerate(episode.turns):
            totals.append(sum(t.reward for t in episode.turns) - turn.penalty)
            later = sum(gamma**j * t.reward for j, t in enumerate(episode.turns[k:]))
            returns.append(later - turn.penalty)

    def relative(value, others):
        if max(others) - min(others) < 1e-9:
            return 0.0
        return (value - mean(others)) / (stdev(others) + 1e-6 if norm_by_std else 1.0)

    out = []
    for i, turn in enumerate(turns):
        here = [returns[j] for j, other in enumerate(turns) if other.observation == turn.observation]
        out.append(relative(totals[i], totals) + omega * relative(returns[i], here))
    return out


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 0.95, 1.0]), st.sampled_from([0.3, 1.0]), st.booleans())
def test_equals_a_plain_loop(seed, gamma, omega, norm_by_std):
    group = random_story(seed)
    algorithm = Gigpo(policy_loss=PLAIN, baseline=Baseline(norm_by_std=norm_by_std), gamma=gamma, omega=omega)
    expected = torch.tensor(_reference_gigpo(group, gamma, omega, norm_by_std))
    torch.testing.assert_close(algorithm.base_advantages(group), expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_without_the_step_part_it_is_grpo_and_the_order_of_episodes_does_not_matter(seed):
    group = random_story(seed)
    assert torch.equal(
        Gigpo(policy_loss=PLAIN, omega=0.0).base_advantages(group), Grpo(policy_loss=PLAIN).base_advantages(group)
    )
    algorithm = Gigpo(policy_loss=PLAIN)
    other, moved = shuffled(group, seed)
    torch.testing.assert_close(algorithm.base_advantages(other), algorithm.base_advantages(group)[moved])


def test_states_that_no_other_step_shares_leave_grpo():
    group = story([("a", "x", "b"), ("b", "x", "won", 10.0)], [("c", "x", "d"), ("d", "x", "e")])
    assert torch.equal(Gigpo(policy_loss=PLAIN).base_advantages(group), Grpo(policy_loss=PLAIN).base_advantages(group))


def test_the_report_counts_steps_that_are_alone():
    # anchors s0 s1 | s0 s2 s2: one of five alone; without a step advantage s1, s2, s2; 5 turns at 3 anchors
    report = Gigpo(policy_loss=PLAIN).group_report(vector_story())
    assert report == pytest.approx({"singleton_share": 0.2, "step_zero_share": 0.6, "anchor_turns": 5 / 3})
    assert tuple(report) == Gigpo(policy_loss=PLAIN).group_report_names


@pytest.mark.parametrize(
    ("knob", "value"),
    [("gamma", 1.5), ("gamma", -0.1), ("omega", -1.0), ("anchor_similarity", 0.0), ("anchor_similarity", 2)],
)
def test_wrong_knobs_name_themselves(knob, value):
    with pytest.raises(ConfigError, match=rf"algorithm\.{knob}.*{value}"):
        Gigpo(policy_loss=PLAIN, **{knob: value})
