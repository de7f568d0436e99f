"""Anchors, discounted returns and advantages inside a slot against plain loops."""

import random
import time
from difflib import SequenceMatcher
from statistics import mean, pstdev, stdev

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpo.functional.anchors import (
    _common_letters,
    alone,
    discounted_returns,
    exact_anchors,
    relative_to_slot,
    similar_anchors,
)

WORDS = ("cabinet 1", "cabinet 2", "mug 1", "mug 2", "is closed", "you see", "nothing", "you arrive at", "the fridge 1")


def _reference_similar(texts, threshold):
    firsts, out = [], []
    for text in texts:
        for number, first in enumerate(firsts):
            if SequenceMatcher(None, first, text, autojunk=False).ratio() >= threshold:
                out.append(number)
                break
        else:
            out.append(len(firsts))
            firsts.append(text)
    return out


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), max_size=12),
    st.sampled_from([0.3, 0.6, 0.8, 0.9, 0.95, 1.0]),
)
def test_the_bounds_refuse_no_pair_wrongly(texts, threshold):
    assert similar_anchors(texts, threshold).tolist() == _reference_similar(texts, threshold)


@settings(max_examples=60, deadline=None)
@given(st.text("abc", max_size=9), st.text("abc", max_size=9))
def test_the_bound_is_the_longest_common_subsequence(a, b):
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            longest[i + 1][j + 1] = longest[i][j] + 1 if x == y else max(longest[i][j + 1], longest[i + 1][j])
    places = {letter: sum(1 << i for i, other in enumerate(b) if other == letter) for letter in b}
    assert _common_letters(a, places, len(b)) == longest[-1][-1]


def test_a_text_is_compared_with_the_first_member_only():
    # "abcdefghij" -> "abcdefghiX" 9/10 -> "abcdefghYX" is 9/10 from the second but 8/10 from the first
    assert similar_anchors(["abcdefghij", "abcdefghiX", "abcdefghYX"], 0.85).tolist() == [0, 0, 1]


def test_a_ratio_at_the_threshold_is_enough():
    # 2 * 2 / (4 + 2): every bound of the ratio is equal to it here
    assert similar_anchors(["abcd", "ab"], 4 / 6).tolist() == [0, 0]
    assert similar_anchors(["abcd", "ab"], 4 / 6 + 1e-9).tolist() == [0, 1]


def test_frequent_letters_of_long_texts_count():
    long = "you see a mug 1, a mug 2 and a bowl 3. " * 8
    changed = "now " + long.replace("bowl", "vase")
    assert SequenceMatcher(None, long, changed).ratio() < 0.1  # difflib's heuristic sees two texts of nothing in common
    assert similar_anchors([long, changed], 0.85).tolist() == [0, 0]


def test_a_group_of_400_turns_is_grouped_well_within_a_second():
    rng = random.Random(0)
    kinds = ("shelf", "drawer", "cabinet", "sidetable")
    things = [f"a {name} {n}" for name in ("mug", "pen", "book", "egg", "plate") for n in (1, 2, 3)]
    texts = []
    for _ in range(80):
        place = f"{rng.choice(kinds)} {rng.randint(1, 9)}"
        texts.append(f"You arrive at {place}. On the {place}, you see {', '.join(rng.sample(things, 4))}.")
    start = time.process_time()
    similar_anchors([rng.choice(texts) for _ in range(400)], 0.95)
    assert time.process_time() - start < 1.0


def test_keys_are_numbered_as_they_appear():
    anchors = exact_anchors(["b", "a", "b", "c", "a", "b"])
    assert anchors.tolist() == [0, 1, 0, 2, 1, 0]
    assert alone(anchors).tolist() == [False, False, False, True, False, False]
    assert exact_anchors([]).dtype == torch.int64


def test_returns_are_discounted_inside_an_episode(assert_golden):
    # episode 0: 4; 2 + 0.5*4 = 4; 1 + 0.5*4 = 3. episode 1: 8; 0 + 0.5*8 = 4
    rewards = torch.tensor([1.0, 2.0, 4.0, 0.0, 8.0], dtype=torch.float64)
    assert_golden(discounted_returns(rewards, torch.tensor([0, 0, 0, 1, 1]), 0.5), [3.0, 4.0, 4.0, 4.0, 8.0])


def test_a_slot_of_three_and_one_alone(assert_golden):
    # [5, 1, 0]: mean 2, variance (9 + 1 + 4)/2 = 7, sigma 2.645751; population 14/3, sigma 2.160247
    values, slot = torch.tensor([5.0, 7.0, 1.0, 0.0]), torch.tensor([0, 1, 0, 0])
    assert_golden(relative_to_slot(values, slot), [1.133893, 0.0, -0.377964, -0.755928])
    assert_golden(relative_to_slot(values, slot, correction=0), [1.388730, 0.0, -0.462910, -0.925820])
    assert_golden(relative_to_slot(values, slot, norm_by_std=False), [3.0, 0.0, -1.0, -2.0])


@pytest.mark.parametrize("norm_by_std", [True, False])
def test_equal_values_give_exactly_zero(norm_by_std):
    values = torch.full((3,), 0.1, dtype=torch.float64)
    assert values.mean() != values[0]  # rounding, which must not be divided by epsilon
    slot = torch.zeros(3, dtype=torch.int64)
    assert torch.equal(relative_to_slot(values, slot, norm_by_std=norm_by_std), torch.zeros(3, dtype=torch.float64))


def _reference_relative(values, slot, mask, norm_by_std, correction):
    out = [0.0] * len(values)
    for s in set(slot):
        inside = [v for v, where, counts in zip(values, slot, mask, strict=True) if where == s and counts]
        for i, (v, where, counts) in enumerate(zip(values, slot, mask, strict=True)):
            if where == s and counts and len(set(inside)) > 1:
                scale = (stdev(inside) if correction else pstdev(inside)) + 1e-6 if norm_by_std else 1.0
                out[i] = (v - mean(inside)) / scale
    return out


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.3, 1.0, 9.5]), st.integers(0, 3), st.booleans()), min_size=1, max_size=12
    ),
    st.booleans(),
    st.sampled_from([0, 1]),
)
def test_slots_equal_a_plain_loop_and_what_is_masked_may_be_nan(rows, norm_by_std, correction):
    values, slot, mask = (list(column) for column in zip(*rows, strict=True))
    expected = _reference_relative(values, slot, mask, norm_by_std, correction)
    poisoned = torch.tensor(values, dtype=torch.float64).masked_fill(~torch.tensor(mask), float("nan"))
    options = {"norm_by_std": norm_by_std, "correction": correction}
    actual = relative_to_slot(poisoned, torch.tensor(slot), torch.tensor(mask), **options)
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="episode"):
        discounted_returns(torch.zeros(2), torch.zeros(3, dtype=torch.int64), 0.5)
    with pytest.raises(ValueError, match="slot"):
        relative_to_slot(torch.zeros(2), torch.zeros(2))
