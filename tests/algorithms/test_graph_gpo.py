"""GraphGPO: the test vector in both variants, unreachable states, groups without success, and a plain loop."""

from dataclasses import replace
from statistics import mean, stdev

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stories import random_story, shuffled, story, vector_story

from sharpo.algorithms.baseline import Baseline
from sharpo.algorithms.graph_gpo import GraphGpo
from sharpo.algorithms.grpo import Grpo
from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.errors import ConfigError

PLAIN = PolicyLoss()
GRAPH = GraphGpo(policy_loss=PLAIN)
MEAN_NORM = Baseline(norm_by_std=False)


def test_t_gra_1(assert_golden):
    # d: won 0, s1 1, s0 2, s2 cannot reach it: 2 + 1 = 3. R = 10*0.1^d(next) = 1, 10 | 0.01, 0.01, 0.01
    values, anchors = GRAPH.steps(vector_story())
    assert_golden(values, [1.0, 10.0, 0.01, 0.01, 0.01])
    assert anchors.tolist() == [0, 1, 0, 3, 3]
    # s0 has 1 and 0.01: +-0.7071; the rest is alone or equal; A^E as in GiGPO: 1.0954, -0.7303
    expected = [1.8026, 1.0954, -1.4374, -0.7303, -0.7303]
    assert_golden(GRAPH.base_advantages(vector_story()), expected, printed_decimals=4)


def test_t_gra_1_normalised(assert_golden):
    # 10*0.1^(d(next) - d(here) + 1): 1-2+1 = 0, 0-1+1 = 0 | 3-2+1 = 2, 3-3+1 = 1, 1
    relative = replace(GRAPH, normalize_distance=True)
    assert_golden(relative.steps(vector_story())[0], [10.0, 10.0, 0.1, 1.0, 1.0])
    expected = [1.8026, 1.0954, -1.4374, -0.7303, -0.7303]
    assert_golden(relative.base_advantages(vector_story()), expected, printed_decimals=4)


def test_the_two_parts_have_weights(assert_golden):
    # without division: A^E 6, -4; A^S at s0: 1 and 0.01, mu 0.505: +-0.495
    weighted = replace(GRAPH, baseline=MEAN_NORM, omega=2.0, episode_weight=0.5).base_advantages(vector_story())
    assert_golden(weighted, [3.99, 3.0, -2.99, -2.0, -2.0])
    halved = replace(GRAPH, baseline=MEAN_NORM, goal_value=5.0).base_advantages(vector_story())
    assert_golden(halved, [6.2475, 6.0, -4.2475, -4.0, -4.0])


def test_a_failed_episode_learns_from_the_roads_of_others(assert_golden):
    # T1: s0 -> s1 -> won. T2: s2 -> s1 -> s3 -> s3: its first step came nearer: d(s1) = 1, d(s2) = 2, d(s3) = 3
    group = story(
        [("s0", "a", "s1"), ("s1", "b", "won", 10.0)],
        [("s2", "a", "s1"), ("s1", "c", "s3"), ("s3", "c", "s3")],
    )
    assert_golden(GRAPH.steps(group)[0], [1.0, 10.0, 1.0, 0.01, 0.01])


def test_the_last_turn_of_a_failed_episode_leads_to_what_it_saw_and_of_a_won_one_to_success_alone(assert_golden):
    # both end in the same words; only T1 was won. "end" itself is one beyond s0, which is at 1
    group = story([("s0", "a", "end", 10.0)], [("s0", "b", "end")])
    assert_golden(GRAPH.steps(group)[0], [10.0, 0.1])


def test_without_success_every_state_is_as_good_as_any_other(assert_golden):
    group = story([("s0", "a", "s1"), ("s1", "a", "s0")], [("s0", "b", "s2")])
    assert_golden(GRAPH.steps(group)[0], [1.0, 1.0, 1.0])  # 10*0.1^1
    assert_golden(replace(GRAPH, normalize_distance=True).steps(group)[0], [1.0, 1.0, 1.0])  # 1 - 1 + 1 = 1
    assert torch.equal(GRAPH.base_advantages(group), torch.zeros(3))
    assert GRAPH.group_report(group)["reachable_share"] == 0.0


def test_similar_texts_become_one_node(assert_golden):
    # "room 1" and "room 2" are one node with 0.8 (5 of 6 letters): then T2's first step leads where T1 won from
    group = story([("room 1", "a", "won", 10.0)], [("hall", "b", "room 2"), ("room 2", "c", "yard")])
    assert_golden(GRAPH.steps(group)[0], [10.0, 0.1, 0.1])  # apart: room 1 at 1; room 2, hall and yard at 2
    merged = replace(GRAPH, anchor_similarity=0.8)
    values, anchors = merged.steps(group)
    # d: room 1, hall 2, yard 3
    assert_golden(values, [10.0, 1.0, 0.01])
    assert anchors[0] == anchors[2]


def test_a_penalty_is_taken_from_its_own_step(assert_golden):
    group = story([("s0", "a", "won", 10.0)], [("s0", None, "s0", 0.0, 0.1)])
    assert_golden(GRAPH.steps(group)[0], [10.0, 0.9])  # s0 -> s0: d 1: 10*0.1 - 0.1


def _reference_graph_gpo(group, gamma, normalize, norm_by_std):
    edges, penalties, totals = [], [], []
    for episode in group.episodes:
        for k, turn in enumerate(episode.turns):
            won = episode.outcome.success and k == len(episode.turns) - 1
            edges.append((turn.observation, "SUCCESS" if won else turn.next_observation))
            penalties.append(turn.penalty)
            totals.append(episode.episode_return - turn.penalty)
    names = {turn.next_observation for episode in group.episodes for turn in episode.turns} | {e[0] for e in edges}
    distance = dict.fromkeys(names, 1e9) | {"SUCCESS": 0}
    for _ in range(len(names) + 1):
        for left, reached in edges:
            distance[left] = min(distance[left], distance[reached] + 1)
    known = [d for d in distance.values() if d < 1e8]
    distance = {name: d if d < 1e8 else max(known) + 1 for name, d in distance.items()}
    values = [
        10 * gamma ** (distance[b] - distance[a] + 1 if normalize else distance[b]) - p
        for (a, b), p in zip(edges, penalties, strict=True)
    ]

    def relative(value, others):
        if max(others) - min(others) < 1e-12:
            return 0.0
        return (value - mean(others)) / (stdev(others) + 1e-6 if norm_by_std else 1.0)

    out = []
    for i, (left, _) in enumerate(edges):
        here = [values[j] for j, other in enumerate(edges) if other[0] == left]
        out.append(relative(totals[i], totals) + relative(values[i], here))
    return out


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 1.0]), st.booleans(), st.booleans())
def test_equals_a_plain_loop(seed, gamma, normalize, norm_by_std):
    group = random_story(seed, states=6)
    algorithm = replace(GRAPH, gamma=gamma, normalize_distance=normalize, baseline=Baseline(norm_by_std=norm_by_std))
    expected = torch.tensor(_reference_graph_gpo(group, gamma, normalize, norm_by_std))
    torch.testing.assert_close(algorithm.base_advantages(group), expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_without_the_step_part_it_is_grpo_and_the_order_of_episodes_does_not_matter(seed):
    group = random_story(seed)
    assert torch.equal(replace(GRAPH, omega=0.0).base_advantages(group), Grpo(policy_loss=PLAIN).base_advantages(group))
    other, moved = shuffled(group, seed)
    torch.testing.assert_close(GRAPH.base_advantages(other), GRAPH.base_advantages(group)[moved])


def test_the_report_counts_turns_with_a_way_to_success():
    report = GRAPH.group_report(vector_story())
    assert report["reachable_share"] == pytest.approx(0.4)  # T1's two; s2 leads nowhere
    assert tuple(report) == GRAPH.group_report_names


@pytest.mark.parametrize(
    ("knob", "value"), [("gamma", 0.0), ("episode_weight", -1.0), ("goal_value", 0.0), ("omega", -1.0)]
)
def test_wrong_knobs_name_themselves(knob, value):
    with pytest.raises(ConfigError, match=rf"algorithm\.{knob}.*{value}"):
        replace(GRAPH, **{knob: value})
