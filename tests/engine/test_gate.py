"""The log-prob gate sees each known way in which an engine can hold the wrong weights."""

from __future__ import annotations

import pytest
import torch

from sharpo.engine.gate import LogprobGate
from sharpo.engine.weights import publish
from sharpo.errors import ConfigError, GateError

GATE = LogprobGate(max_abs=1e-3, p99_abs=5e-4)
PROMPT = tuple(5 + (7 * n) % 50 for n in range(300))  # longer than a block of the prefix cache


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


@pytest.fixture(scope="module")
def engine(make_engine, tiny_folder, policy):
    made = make_engine("vllm", tiny_folder)
    publish(made, 0, policy.named_weights)
    return made


@pytest.fixture
def gate_check(engine, make_request, drain, trainer_logp):
    """Generate with the engine, score with the trainer, compare."""

    def check(policy, *, engine_temperature=1.0, trainer_temperature=1.0, seed=0):
        requests = [
            make_request(n, PROMPT[: 300 - n], seed=seed + n, temperature=engine_temperature, max_tokens=8)
            for n in range(8)
        ]
        done = drain(engine, requests)
        behaviour = torch.tensor([done[r.id].logp for r in requests])
        old = torch.stack(
            [trainer_logp(policy, r.prompt_ids, done[r.id].token_ids, trainer_temperature) for r in requests]
        )
        return GATE.check(behaviour, old, torch.ones_like(old, dtype=torch.bool))

    return check


@pytest.mark.vllm
@pytest.mark.integration
class TestPlantedFaults:
    def test_clean_path_agrees_to_a_few_1e_5(self, engine, policy, another_policy, gate_check):
        assert gate_check(policy)["gate/max_abs"] < 1e-4
        publish(engine, engine.version + 1, another_policy.named_weights)
        assert gate_check(another_policy)["gate/max_abs"] < 1e-4
        publish(engine, engine.version + 1, policy.named_weights)

    def test_stale_head(self, engine, policy, another_policy, gate_check):
        """The packed head keeps its old numbers, as a tied one does after a reload."""

        def head_from_before():
            for name, tensor in another_policy.named_weights():
                yield name, policy.lm.lm_head.weight.detach() if name == "lm_head.weight" else tensor

        publish(engine, engine.version + 1, head_from_before)
        with pytest.raises(GateError, match="stale"):
            gate_check(another_policy)
        publish(engine, engine.version + 1, policy.named_weights)
        gate_check(policy)

    def test_prefix_cache_from_before(self, engine, policy, another_policy, gate_check, monkeypatch):
        gate_check(policy)  # fills the cache
        with monkeypatch.context() as fault:
            fault.setattr(engine, "_drop_prefixes", lambda: None)
            publish(engine, engine.version + 1, another_policy.named_weights)
        with pytest.raises(GateError, match="stale"):
            gate_check(another_policy)
        publish(engine, engine.version + 1, policy.named_weights)
        gate_check(policy)

    def test_weights_of_the_version_before(self, engine, policy, another_policy, gate_check):
        with pytest.raises(GateError, match="stale"):
            gate_check(another_policy)

    def test_another_temperature(self, policy, gate_check):
        with pytest.raises(GateError, match="temperature"):
            gate_check(policy, engine_temperature=0.7, trainer_temperature=1.0)
        assert gate_check(policy, engine_temperature=0.7, trainer_temperature=0.7)["gate/max_abs"] < 1e-4
