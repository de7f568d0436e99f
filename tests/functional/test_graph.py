"""Distances to a goal against relaxation in rounds, and what a step is worth."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpo.functional.graph import goal_distances, just_beyond, step_worth

INF = float("inf")


def _reference_distances(edges, nodes, goal):
    distance = [INF] * nodes
    distance[goal] = 0.0
    for _ in range(nodes):
        for left, reached in edges:
            distance[left] = min(distance[left], distance[reached] + 1)
    return distance


EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=14)


@settings(max_examples=80, deadline=None)
@given(EDGES)
def test_distances_equal_relaxation(edges):
    source, target = (torch.tensor([e[i] for e in edges], dtype=torch.int64) for i in (0, 1))
    distance = goal_distances(source, target, 7, 6)
    assert distance.tolist() == _reference_distances(edges, 7, 6)
    filled = just_beyond(distance)
    known = [d for d in distance.tolist() if d != INF]
    assert filled.tolist() == [max(known) + 1 if d == INF else d for d in distance.tolist()]


@settings(max_examples=40, deadline=None)
@given(EDGES)
def test_no_step_is_worth_more_than_the_goal(edges):
    source, target = (torch.tensor([e[i] for e in edges], dtype=torch.int64) for i in (0, 1))
    distance = just_beyond(goal_distances(source, target, 7, 6))
    for normalize in (False, True):
        worth = step_worth(distance[source], distance[target], gamma=0.3, normalize_distance=normalize)
        assert bool((worth <= 10.0).all())
        assert bool((worth > 0).all())


def test_nothing_leads_to_the_goal():
    distance = goal_distances(torch.tensor([0, 1]), torch.tensor([1, 0]), 3, 2)
    assert distance.tolist() == [INF, INF, 0.0]
    assert just_beyond(distance).tolist() == [1.0, 1.0, 0.0]


def test_the_direction_of_an_edge_counts():
    assert goal_distances(torch.tensor([1]), torch.tensor([0]), 2, 1).tolist() == [INF, 0.0]


def test_worth_by_hand(assert_golden):
    # distances s0 2, s1 1, s2 3 (beyond), won 0; gamma 0.1. Plain: 10*0.1^d(next).
    # Normalised, d(next) - d(here) + 1: 1-2+1 = 0; 0-1+1 = 0; 3-2+1 = 2; 3-3+1 = 1
    here, there = torch.tensor([2.0, 1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, 3.0, 3.0])
    assert_golden(step_worth(here, there, gamma=0.1), [1.0, 10.0, 0.01, 0.01])
    assert_golden(step_worth(here, there, gamma=0.1, normalize_distance=True), [10.0, 10.0, 0.1, 1.0])
    assert_golden(step_worth(here, there, gamma=0.1, goal_value=2.0), [0.2, 2.0, 0.002, 0.002])
