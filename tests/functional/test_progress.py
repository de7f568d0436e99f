"""Monotone progress along a reference."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpo.functional.progress import monotone_progress


def _reference_progress(scores, threshold):
    furthest, out = 0, []
    for row in scores:
        best, place = -float("inf"), 0
        for i, score in enumerate(row):
            if score > best:
                best, place = score, i + 1
        gained = best > threshold and place > furthest
        out.append((place - furthest) / len(row) if gained else 0.0)
        furthest = place if gained else furthest
    return out


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(st.sampled_from([0.0, 0.4, 0.5, 0.6, 0.9]), min_size=n, max_size=n), max_size=8)
    )
)
def test_equals_a_plain_loop_and_never_exceeds_the_whole(scores):
    grid = torch.tensor(scores, dtype=torch.float64).reshape(len(scores), -1 if scores else 3)
    progress = monotone_progress(grid, 0.5)
    torch.testing.assert_close(progress, torch.tensor(_reference_progress(scores, 0.5), dtype=torch.float64))
    assert float(progress.sum()) <= 1 + 1e-9
    assert bool((progress >= 0).all())


def test_by_hand(assert_golden):
    # four reference steps. places 1, -, 3, 2, 3: 1/4; nothing above 0.5; 2/4; behind; not new
    scores = [[0.9, 0, 0, 0], [0.1, 0.2, 0.5, 0.4], [0, 0, 0.8, 0], [0, 0.7, 0, 0], [0, 0, 0.9, 0]]
    assert_golden(monotone_progress(torch.tensor(scores), 0.5), [0.25, 0.0, 0.5, 0.0, 0.0])


def test_a_match_at_the_threshold_does_not_count_and_of_equal_matches_the_earliest_does():
    assert monotone_progress(torch.tensor([[0.5, 0.0]]), 0.5).tolist() == [0.0]
    assert monotone_progress(torch.tensor([[0.2, 0.8, 0.8, 0.1]]), 0.5).tolist() == [0.5]


def test_nothing_to_compare_gives_nothing():
    assert monotone_progress(torch.zeros(0, 3), 0.5).shape == (0,)
    assert monotone_progress(torch.zeros(2, 0), 0.5).tolist() == [0.0, 0.0]
    assert monotone_progress(torch.full((2, 3), -torch.inf), 0.5).tolist() == [0.0, 0.0]
