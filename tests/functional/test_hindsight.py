"""Hindsight likelihood, ratio and value: by hand, and blind to what the teacher did not read."""

import pytest
import torch

from sharpo.functional.hindsight import hindsight_likelihood, hindsight_ratio, hindsight_value

NAN = float("nan")
SCORED = torch.tensor([True, True, True, False, False])
EPISODE = torch.tensor([0, 0, 0, 0, 1])


def test_by_hand(assert_golden):
    # means -0.5, -2, -0.1 at T = 5: exp(-0.1), exp(-0.4), exp(-0.02)
    # their mean: (0.904837 + 0.670320 + 0.980199)/3 = 0.851785
    likelihood = hindsight_likelihood(
        torch.tensor([-1.0, -8.0, -0.1, NAN, NAN]), torch.tensor([2, 4, 1, 0, 3]), SCORED, 5.0
    )
    assert_golden(likelihood, [0.904837, 0.670320, 0.980199, 0.0, 0.0])
    ratio = hindsight_ratio(likelihood, EPISODE, SCORED, low=0.8, high=1.1)
    # 1.062283; 0.786959 -> 0.8; 1.150758 -> 1.1; not read: 1
    assert_golden(ratio, [1.062283, 0.8, 1.1, 1.0, 1.0])


def test_the_mean_is_the_episodes_own(assert_golden):
    likelihood = torch.tensor([0.5, 0.3, 0.9, 0.9], dtype=torch.float64)
    read = torch.ones(4, dtype=torch.bool)
    ratio = hindsight_ratio(likelihood, torch.tensor([0, 0, 1, 1]), read, low=0.0, high=9.0)
    assert_golden(ratio, [1.25, 0.75, 1.0, 1.0])  # mean 0.4, mean 0.9


def test_value_by_hand_in_any_order(assert_golden):
    # gamma 0.5, R = 8, three turns: 8*0.25*1 = 2; 8*0.5*0.5 = 2; 8*1*2 = 16. smoothed: 2; (2 + 16)/2 = 9; 16
    # the other episode: R = 4, two turns: 2, 4; smoothed 3, 4
    episode, turn = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 1, 2, 0, 1])
    ratio, returns = torch.tensor([1.0, 0.5, 2.0, 1.0, 1.0]), torch.tensor([8.0, 8.0, 8.0, 4.0, 4.0])
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1]):
        columns = (ratio[order], episode[order], turn[order], returns[order])
        assert_golden(hindsight_value(*columns, gamma=0.5), torch.tensor([2.0, 2.0, 16.0, 2.0, 4.0])[order])
        smooth = hindsight_value(*columns, gamma=0.5, smoothing=True)
        assert_golden(smooth, torch.tensor([2.0, 9.0, 16.0, 3.0, 4.0])[order])


def test_an_empty_table_has_no_value():
    none = torch.zeros(0, dtype=torch.int64)
    assert hindsight_value(torch.zeros(0), none, none, torch.zeros(0), gamma=0.5).shape == (0,)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="turn"):
        hindsight_value(torch.ones(2), torch.zeros(2, dtype=torch.int64), torch.zeros(2), torch.ones(2), gamma=0.5)
