"""The log-prob gate: what it compares, and what stops the run."""

from __future__ import annotations

import pytest
import torch

from sharpo.engine.gate import LogprobGate
from sharpo.errors import ConfigError, GateError

GATE = LogprobGate(max_abs=1e-3, p99_abs=5e-4)


def test_reports_the_largest_the_tail_and_the_mean(assert_golden):
    behaviour = torch.zeros(1, 200)
    old = torch.zeros(1, 200)
    old[0, :2] = torch.tensor([3.0, -1.0])
    # 200 values sorted: 198 zeros, 1, 3; index int(0.99 * 200) = 198 -> 1; mean = 4 / 200
    found = LogprobGate(max_abs=4.0, p99_abs=2.0).check(behaviour, old, torch.ones(1, 200, dtype=torch.bool))
    assert_golden([found["gate/max_abs"], found["gate/p99_abs"], found["gate/mean_abs"]], [3.0, 1.0, 0.02])


def test_each_threshold_stops_the_run_and_is_named():
    old = torch.zeros(1, 10)
    behaviour = torch.zeros(1, 10)
    behaviour[0, 3] = 0.5
    mask = torch.ones(1, 10, dtype=torch.bool)
    with pytest.raises(GateError, match=r"max_abs is 0.5 nats over 10 tokens, gate.max_abs allows 0.1"):
        LogprobGate(max_abs=0.1, p99_abs=9.0).check(behaviour, old, mask)
    with pytest.raises(GateError, match=r"p99_abs is 0.5 nats"):
        LogprobGate(max_abs=9.0, p99_abs=0.1).check(behaviour, old, mask)


def test_what_is_not_sampled_or_not_reported_is_not_compared():
    behaviour = torch.tensor([[float("nan"), 5.0, -1.0]])
    mask = torch.tensor([[True, False, True]])
    assert GATE.check(behaviour, torch.tensor([[0.0, 0.0, -1.0]]), mask)["gate/max_abs"] == 0.0
    assert GATE.check(behaviour, torch.zeros(1, 3), torch.tensor([[True, False, False]])) == {}


def test_a_trainer_that_is_not_finite_never_passes():
    mask = torch.ones(1, 2, dtype=torch.bool)
    with pytest.raises(GateError):
        GATE.check(torch.zeros(1, 2), torch.tensor([[0.0, float("nan")]]), mask)


def test_refuses_a_threshold_of_zero():
    with pytest.raises(ConfigError, match="p99_abs"):
        LogprobGate(max_abs=1.0, p99_abs=0.0)
