"""The credit report: hand-made numbers, fixed keys, NaN for no data."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from sharpo.functional.credit import bounded_weight, interpolate, length_balance
from sharpo.functional.credit_report import control_summary, credit_diagnostics, segment_gaps


@dataclass(frozen=True)
class Table:
    episode: Tensor
    length: Tensor
    success: Tensor
    hinted: Tensor
    base: Tensor
    selected: Tensor
    student_logp: Tensor | None
    teacher_logp: Tensor | None


TABLE = Table(
    episode=torch.tensor([0, 0, 1, 1]),
    length=torch.tensor([1, 2, 4, 4]),
    success=torch.tensor([True, True, False, False]),
    hinted=torch.tensor([True, True, True, False]),
    base=torch.tensor([1.0, 1.0, -2.0, -2.0]),
    selected=torch.tensor([True, True, True, False]),
    student_logp=torch.tensor([-1.0, -2.0, -4.0, float("nan")]),
    teacher_logp=torch.tensor([-0.5, -2.4, -2.0, float("nan")]),
)
CREDIT = torch.tensor([1.1, 1.005, -1.8, -2.0])


def test_numbers(assert_golden):
    report = credit_diagnostics(
        TABLE, CREDIT, weight=torch.tensor([1.2, 0.9, 0.6, 1.0]), normalizer=torch.tensor([0.9, 0.9, 1.1, 7.0])
    )
    expected = {
        "peer_share": 0.75,
        "selected_share": 0.75,
        "gap_success_mean": 0.15,  # gaps 0.5/1 and -0.4/2
        "gap_success_std": 0.35,
        "gap_success_p05": -0.165,  # -0.2 + 0.05 * 0.7
        "gap_success_p95": 0.465,
        "gap_failure_mean": 0.5,  # 2.0/4
        "gap_failure_std": 0.0,
        # gaps 0.5, -0.2, 0.5 over 1, 2, 4 tokens, centred [0.23333, -0.46667, 0.23333], squares 0.326667; lengths as
        # below; products -0.311111 + 0.155556 + 0.388889 = 0.233333
        "gap_length_correlation": 0.233333 / (4.666667 * 0.326667) ** 0.5,
        "gap_length_correlation_positive": -1.0,  # 0.5 over 1 token, -0.2 over 2
        "gap_length_correlation_negative": 0.0,  # one segment alone does not vary
        "weight_mean": 0.9,
        "weight_std": 0.06**0.5,  # (0.09 + 0 + 0.09)/3
        "z_mean": 2.9 / 3,
        "z_min": 0.9,
        "z_max": 1.1,
        "multiplier_mean": 3.005 / 3,  # 1.1, 1.005, 0.9
        "multiplier_min": 0.9,
        "multiplier_max": 1.1,
        "moved_share": 2 / 3,  # 10 %, 0.5 %, 10 %
        "length_mean": 7 / 3,
        # lengths centred [-4/3, -1/3, 5/3], squares 42/9; multipliers centred [0.09833, 0.00333, -0.10167], squares
        # 0.0200167; products -0.131111 - 0.001111 - 0.169444 = -0.301667; / sqrt(4.66667 * 0.0200167)
        "multiplier_length_correlation": -0.301667 / (4.666667 * 0.0200167) ** 0.5,
    }
    for name, value in expected.items():
        assert_golden(report[name], value)


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("rows", [4, 0])
def test_keys_never_change(scored, rows):
    full = credit_diagnostics(TABLE, CREDIT)
    fields = {name: None if x is None else x[:rows] for name, x in vars(TABLE).items()}
    if not scored:
        fields |= {"student_logp": None, "teacher_logp": None}
    report = credit_diagnostics(Table(**fields), CREDIT[:rows])
    assert list(report) == list(full)
    assert all(x.ndim == 0 for x in report.values())
    if not scored or rows == 0:
        assert torch.isnan(report["gap_success_mean"])


def test_no_peer_anywhere_means_nothing_moved():
    none = torch.zeros(4, dtype=torch.bool)
    report = credit_diagnostics(Table(**{**vars(TABLE), "selected": none, "hinted": none}), TABLE.base)
    assert report["peer_share"].item() == report["selected_share"].item() == 0.0
    assert torch.isnan(report["multiplier_mean"])


def synthetic(episodes=600, steps=8, noise=0.6, bias=0.0, slope=0.0, seed=0):
    """Trajectories of mixed outcome, spans of 1 to 12 tokens; the mean gap depends on the length by ``slope``."""
    generator = torch.Generator().manual_seed(seed)
    episode = torch.arange(episodes).repeat_interleave(steps)
    length = torch.randint(1, 13, (len(episode),), generator=generator)
    success = (torch.arange(episodes) % 2 == 0)[episode]
    gap = bias + slope * (length - 6.5) + noise * torch.randn(len(episode), generator=generator)
    yes = torch.ones_like(success)
    student = -length.float()
    return Table(
        episode=episode,
        length=length,
        success=success,
        hinted=yes,
        base=torch.where(success, 0.8, -0.8),
        selected=yes,
        student_logp=student,
        teacher_logp=student + gap * length,
    )


def shaped(table, gap, gamma=0.0):
    weight = bounded_weight(gap, table.base, table.selected, table.episode)
    multiplier = length_balance(weight, table.length, table.selected, table.episode, gamma=gamma)
    return credit_diagnostics(table, interpolate(table.base, multiplier, 0.2))


ENDS = ("", "_positive", "_negative")


def test_balanced_multipliers_do_not_follow_the_length():
    table = synthetic()
    report = shaped(table, segment_gaps(table)[0])
    for end in ENDS:
        assert abs(report[f"multiplier_length_correlation{end}"].item()) < 0.08, end


def test_an_equal_budget_for_every_segment_is_seen_to_follow_the_length():
    table = synthetic()
    report = shaped(table, segment_gaps(table)[0], gamma=1.0)
    for end in ENDS:
        assert report[f"multiplier_length_correlation{end}"].item() < -0.5, end


def test_a_shaper_that_sums_the_gap_is_caught_although_its_bias_turns_with_the_sign():
    table = synthetic(bias=-0.03, noise=0.02)
    report = shaped(table, segment_gaps(table)[0] * table.length)
    both, up, down = (report[f"multiplier_length_correlation{end}"].item() for end in ENDS)
    assert up < -0.5 < 0.5 < down
    assert abs(both) < 0.3  # over both signs most of it cancels
    honest = shaped(table, segment_gaps(table)[0])
    assert max(abs(honest[f"multiplier_length_correlation{end}"].item()) for end in ENDS) < 0.08


def test_a_gap_that_follows_the_length_is_told_from_a_shaper_that_does():
    table = synthetic()
    honest = shaped(table, segment_gaps(table)[0])
    biased = shaped(table, segment_gaps(table)[0], gamma=1.0)
    for report in (honest, biased):
        assert abs(report["gap_length_correlation"].item()) < 0.03  # 4,800 segments: 0.014 is one deviation of chance
    table = synthetic(slope=-0.1, noise=0.3)
    text = shaped(table, segment_gaps(table)[0])
    for end, sign in (("_positive", 1), ("_negative", -1)):  # all of it comes from the gap; the sign of A turns it
        own, shaper = (text[f"{of}_length_correlation{end}"].item() for of in ("gap", "multiplier"))
        assert own < -0.6
        assert abs(shaper - sign * own) < 0.1


def test_a_method_that_only_has_a_credit_hook_is_seen_too(assert_golden):
    none = torch.zeros(4, dtype=torch.bool)
    table = Table(**{**vars(TABLE), "selected": none, "hinted": none, "student_logp": None, "teacher_logp": None})
    report = credit_diagnostics(table, table.base * torch.tensor([1.5, 1.0 + 1e-7, 0.5, 1.0]))
    assert_golden(report["multiplier_mean"], 1.0)  # of 1.5 and 0.5: what is left alone does not count
    assert_golden(report["moved_share"], 1.0)


def test_step_share_of_base_advantages(assert_golden):
    # episode 0: 1, 3 (mean 2); episode 1: -1, -3 (mean -2): inside (1+1+1+1)/4 = 1, total (1+9+1+9)/4 = 5
    none = torch.zeros(4, dtype=torch.bool)
    base = torch.tensor([1.0, 3.0, -1.0, -3.0])
    report = credit_diagnostics(Table(**{**vars(TABLE), "base": base, "selected": none}), base)
    assert_golden(report["step_share"], 0.2)
    # deviations -1, 1, 1, -1; lengths 1, 2, 4, 4, centred -1.75, -0.75, 1.25, 1.25: (1.75 - 0.75) / sqrt(4 * 6.75)
    assert_golden(report["step_length_correlation"], 1.0 / 27.0**0.5)
    assert_golden(credit_diagnostics(TABLE, TABLE.base)["step_share"], 0.0)


def test_control_numbers(assert_golden):
    own, other = torch.tensor([0.4, 0.2, -0.1, 0.3]), torch.tensor([0.1, 0.2, -0.3, 0.4])
    report = control_summary(own, other, torch.tensor([True, True, False, False]))
    expected = {
        "own_success_mean": 0.3,
        "own_success_std": 0.1,
        "own_failure_mean": 0.1,
        "other_success_mean": 0.15,
        "other_failure_mean": 0.05,
        "difference": 0.1,  # 0.3, 0, 0.2, -0.1
        "above_share": 0.625,  # 1, 0.5, 1, 0
        # own centred 0.2, 0, -0.3, 0.1; other centred 0, 0.1, -0.4, 0.3: 0.15 / sqrt(0.14 * 0.26)
        "correlation": 0.15 / (0.14 * 0.26) ** 0.5,
    }
    for name, value in expected.items():
        assert_golden(report[name], value)
    empty = control_summary(own[:0], other[:0], torch.zeros(0, dtype=torch.bool))
    assert list(empty) == list(report)
    assert all(x.isnan() for x in empty.values())
