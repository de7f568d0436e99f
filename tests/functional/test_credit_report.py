"""The credit report: hand-made numbers, fixed keys, NaN for no data."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from sharpo.functional.credit_report import credit_diagnostics


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
