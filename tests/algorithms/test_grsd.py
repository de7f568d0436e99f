"""GRSD: the golden vector, a loop reference, its zones and bounds."""

import math

import pytest
import torch

from sharpo.algorithms.grsd import Grsd
from sharpo.errors import ConfigError
from sharpo.functional.turn_credit import relative_evidence


def _reference_grsd(table, *, lam, clip, dead_zone, floor, mixed_only=True):
    mean_gap = [(float(t) - float(s)) / int(n) for t, s, n in zip(table.teacher_logp, table.student_logp, table.length)]  # noqa: B905
    out = table.base.tolist()
    for g in set(table.group.tolist()):
        rows = [k for k in range(len(table)) if int(table.group[k]) == g]
        if mixed_only and len({bool(table.success[k]) for k in rows}) < 2:
            continue
        rows = [k for k in rows if table.selected[k]]
        e = {}
        for k in rows:
            a = float(table.base[k])
            sign = (a > 0) - (a < 0)
            e[k] = math.expm1(min(max(sign * mean_gap[k], -20), 20))
        scale = sum(abs(x) for x in e.values()) / max(len(e), 1)
        for k in rows:
            ratio = e[k] / (scale + 1e-6)
            ratio = 0.0 if abs(ratio) <= dead_zone else min(max(ratio, -clip), clip)
            out[k] *= max(floor, 1 + lam * ratio)
    return torch.tensor(out)


@pytest.fixture
def t_grsd_1(toys):
    return toys.segments([0.2, -0.1, 0.3], [1.0, 1.0, -1.0], [2, 3, 5], episode=[0, 0, 1], success=[True, True, False])


def test_t_grsd_1(t_grsd_1, toys, assert_golden):
    # q = [0.2, -0.1, -0.3]; e = exp(q) - 1 = [0.2214, -0.0952, -0.2592]; mean |e| = 0.1919
    # e / 0.1919 = [1.1536, -0.4959, -1.3505]; clip 0.2: [0.2, -0.2, -0.2]; 1 + 0.5 * that
    table = t_grsd_1
    ratio = relative_evidence(torch.tensor([0.2, -0.1, 0.3]), table.base, table.selected, table.group, clip=9.0)
    assert_golden(ratio, [1.1536, -0.4959, -1.3505], printed_decimals=4)
    effective = Grsd(policy_loss=toys.plain).credit(table, 0)
    assert_golden(effective, [1.1, 0.9, -0.9])


def test_the_wide_clip_reaches_the_floor(t_grsd_1, toys, assert_golden):
    # lambda 1, clip 3: 1 + [1.1536, -0.4959, -1.3505] = [2.1536, 0.5041, -0.3505 -> 0.1]
    effective = Grsd(policy_loss=toys.plain, lam=1.0, clip=3.0).credit(t_grsd_1, 0)
    assert_golden(effective, [2.1536, 0.5041, -0.1], printed_decimals=4)


def test_an_enormous_gap_counts_as_twenty_and_a_vanishing_one_as_little(assert_golden):
    base, group = torch.tensor([1.0, 1.0, -1.0]), torch.zeros(3, dtype=torch.int64)
    ratio = relative_evidence(torch.tensor([200.0, 20.0, 300.0]), base, base != 0, group, clip=9.0)
    # e = [exp(20), exp(20), 0] - 1; mean |e| = (2/3) exp(20)
    assert_golden(ratio, [1.5, 1.5, 0.0])
    ratio = relative_evidence(torch.tensor([1e-6, 1e-6, -1e-6]), base, base != 0, group, clip=9.0)
    assert_golden(ratio, [0.5] * 3)  # 1e-6 / (1e-6 + 1e-6): a vanishing gap counts less and less


def test_the_dead_zone_counts_weak_evidence_as_none(t_grsd_1, toys, assert_golden):
    effective = Grsd(policy_loss=toys.plain, dead_zone=0.5).credit(t_grsd_1, 0)
    assert_golden(effective, [1.1, 1.0, -0.9])
    assert effective[1].item() == 1.0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "knobs",
    [
        {"lam": 0.5, "clip": 0.2, "dead_zone": 0.0, "floor": 0.1},
        {"lam": 1.0, "clip": 3.0, "dead_zone": 0.4, "floor": 0.3},
    ],
)
def test_agrees_with_the_loops(seed, knobs, toys):
    g = torch.Generator().manual_seed(seed)
    table = toys.segments(
        (torch.randn(9, generator=g) * (30 if seed == 0 else 1)).tolist(), torch.randn(9, generator=g).tolist(),
        torch.randint(1, 7, (9,), generator=g).tolist(), episode=[0, 0, 1, 2, 2, 3, 4, 4, 5],
        group=[0, 0, 0, 1, 1, 1, 2, 2, 2], selected=[True, True, True, True, False, True, True, True, True],
        success=[True, True, False, True, True, False, False, False, False],
    )  # fmt: skip
    effective = Grsd(policy_loss=toys.plain, **knobs).credit(table, 0)
    torch.testing.assert_close(effective, _reference_grsd(table, **knobs), rtol=1e-5, atol=1e-6)
    assert torch.equal(effective[6:], table.base[6:])  # a group that only failed
    assert torch.equal(effective[4:5], table.base[4:5])


def test_the_whole_turn_is_reweighted_and_the_report_counts_mixed_groups(t_grsd_1, toys):
    algorithm = Grsd(policy_loss=toys.plain)
    assert algorithm.span == "turn"
    assert algorithm.report(t_grsd_1, t_grsd_1.base)["selected_share"].item() == 1.0
    table = toys.segments([0.2, -0.1], [1.0, 1.0], [2, 3])
    assert algorithm.report(table, table.base)["selected_share"].item() == 0.0
    assert torch.equal(algorithm.credit(table, 0), table.base)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"span": "word"}, "algorithm.span must be one of action"),
        ({"select": "all"}, "algorithm.select must be one of"),
        ({"dead_zone": -0.1}, "algorithm.dead_zone must be >= 0, got -0.1"),
        ({"clip": 0.0}, "algorithm.clip must be > 0"),
        ({"floor": 0.0}, r"algorithm.floor must be in \(0, 1\]"),
    ],
)
def test_wrong_knobs_name_themselves(knobs, message, toys):
    with pytest.raises(ConfigError, match=message):
        Grsd(policy_loss=toys.plain, **knobs)


def test_a_ratio_at_the_edge_of_the_dead_zone_is_no_evidence():
    gap, base = torch.tensor([0.2, -0.1, 0.3]), torch.tensor([1.0, 1.0, -1.0])
    where = gap, base, torch.ones(3, dtype=torch.bool), torch.zeros(3, dtype=torch.int64)
    ratio = relative_evidence(*where, clip=9)
    cut = relative_evidence(*where, dead_zone=ratio[0].item(), clip=9)
    assert cut.tolist() == [0.0, 0.0, ratio[2].item()]
