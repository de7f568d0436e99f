"""Intervals and paired tests against numbers worked out by hand."""

import pytest

from sharpo.stats import bootstrap, mcnemar, sign_test, wilson


def test_wilson_golden(assert_golden):
    # n=10, k=8, z=1.959964: z²=3.841459; centre 0.8+0.1920729=0.9920729,
    # half 1.959964*sqrt(0.016+0.00960365)=0.3136143, denominator 1.3841459 -> 0.4901625, 0.9433178
    assert_golden(list(wilson(8, 10)), [0.4901625, 0.9433178], atol=1e-5)
    # k=0: low 0, high z²/(n+z²) = 3.841459/23.841459 = 0.1611252
    assert_golden(list(wilson(0, 20)), [0.0, 0.1611252], atol=1e-5)


def test_wilson_without_trials_is_everything():
    assert wilson(0, 0) == (0.0, 1.0)


def test_wilson_refuses_more_successes_than_trials():
    with pytest.raises(ValueError, match="between 0 and trials=3"):
        wilson(4, 3)


def test_bootstrap_is_seeded_and_brackets_the_mean():
    values = [0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0]
    low, high = bootstrap(values, seed=3)
    assert bootstrap(values, seed=3) == (low, high)
    assert 0.0 < low < 0.625 < high < 1.0
    # binomial(8, 5/8)/8: the 2.5 % quantile is 2/8 (P(X<=1)=0.56 %, P(X<=2)=3.96 %), the 97.5 % one 7/8 or 1
    assert low == 0.25
    assert high == 0.875 or high == 1.0


def test_sign_test_golden(assert_golden):
    # 10 pairs, 2 losses: 2*(1+10+45)/1024 = 0.109375; 5:5 -> capped at 1; 6:0 -> 2/64
    assert_golden([sign_test(8, 2), sign_test(5, 5), sign_test(0, 6), sign_test(0, 0)], [0.109375, 1.0, 0.03125, 1.0])


def test_mcnemar_ignores_pairs_that_did_not_change(assert_golden):
    before = [True] * 30 + [False] * 10
    after = [True] * 28 + [False] * 2 + [True] * 8 + [False] * 2
    assert_golden(mcnemar(before, after), 0.109375)
    with pytest.raises(ValueError, match="pair up"):
        mcnemar([True], [])
