"""What every language-model engine promises, the same for each; and that the gate sees the wrong weights in it."""

from __future__ import annotations

import pytest
import torch

from sharpo.engine.gate import LogprobGate
from sharpo.engine.weights import publish
from sharpo.errors import EngineError, GateError
from sharpo.protocols import RolloutEngine

VLLM = pytest.param("vllm", marks=[pytest.mark.vllm, pytest.mark.integration])
PROMPT = (2, 9, 17, 33, 21, 3)
LONG = tuple(5 + (7 * n) % 50 for n in range(70))
LONGER = tuple(5 + (7 * n) % 50 for n in range(300))  # than a block of the prefix cache
GATE = LogprobGate(max_abs=1e-3, p99_abs=5e-4)
FAILS = r"max_abs is \d"  # a number: what is not finite is another fault


@pytest.fixture(scope="module", params=["hf", VLLM])
def engine(request, make_engine, tiny_folder, policy):
    made = make_engine(request.param, tiny_folder)
    with pytest.raises(EngineError, match="publish"):
        made.submit(next(iter(_requests(request.getfixturevalue("make_request")))))
    assert publish(made, 0, policy.named_weights)
    return made


def _requests(make_request, count=12, **options):
    for n in range(count):
        yield make_request(n, LONG[: 5 + 5 * n], seed=100 + n, **options)


def test_satisfies_the_protocol(engine):
    assert isinstance(engine, RolloutEngine)
    assert engine.reports_logp
    assert engine.poll() == []


@pytest.mark.parametrize("temperature", [1.0, 0.4, 0.0])
def test_reported_logp_is_the_trainers(engine, policy, make_request, drain, trainer_logp, temperature):
    requests = list(_requests(make_request, temperature=temperature))
    done = drain(engine, requests)
    for request in requests:
        completion = done[request.id]
        expected = trainer_logp(policy, request.prompt_ids, completion.token_ids, temperature)
        assert (torch.tensor(completion.logp) - expected).abs().max() < 1e-4


@pytest.mark.parametrize("temperature", [1.0, 0.4, 0.0])
def test_score_is_the_trainers(engine, policy, trainer_logp, temperature):
    action = (8, 30, 11, 4)
    expected = trainer_logp(policy, LONG, action, temperature)
    assert (torch.tensor(engine.score(LONG, action, temperature)) - expected).abs().max() < 1e-4
    assert engine.score(LONG, (), temperature) == []


def test_scores_a_text_that_fills_the_context(engine, policy, trainer_logp):
    prompt, action = tuple(5 + (3 * n) % 50 for n in range(508)), (8, 30, 11, 4)
    expected = trainer_logp(policy, prompt, action, 1.0)
    assert (torch.tensor(engine.score(prompt, action, 1.0)) - expected).abs().max() < 1e-4


def test_members_differ_by_seed_and_a_seed_repeats(engine, make_request, drain):
    first = drain(engine, [make_request(n, PROMPT, seed=n, max_tokens=8) for n in range(6)])
    again = drain(engine, [make_request(n + 50, PROMPT, seed=n, max_tokens=8) for n in reversed(range(6))])
    assert len({completion.token_ids for completion in first.values()}) == 6
    for n in range(6):
        assert again[n + 50].token_ids == first[n].token_ids


def test_samples_do_not_depend_on_the_rest_of_the_batch(engine, make_request, drain):
    requests = list(_requests(make_request, count=8))
    together = drain(engine, requests)
    for request in requests[:3]:
        assert drain(engine, [request])[request.id].token_ids == together[request.id].token_ids


def test_greedy_takes_the_most_likely_token(engine, policy, make_request, drain):
    completion = drain(engine, [make_request(0, PROMPT, temperature=0.0)])[0]
    ids = list(PROMPT)
    for token in completion.token_ids:
        with torch.no_grad():
            assert int(policy.lm(torch.tensor([ids])).logits[0, -1].argmax()) == token
        ids.append(token)


def test_stop_token_ends_the_turn_and_is_kept(engine, make_request, drain):
    free = drain(engine, [make_request(0, PROMPT, seed=5, max_tokens=8)])[0]
    assert free.finish == "length"
    assert len(free.token_ids) == 8
    stop = free.token_ids[3]
    stopped = drain(engine, [make_request(1, PROMPT, seed=5, max_tokens=8, stop_ids=(stop,))])[1]
    assert stopped.finish == "stop"
    assert stopped.token_ids == free.token_ids[: free.token_ids.index(stop) + 1]
    assert len(stopped.logp) == len(stopped.token_ids)


def test_the_models_own_end_token_stops_nothing_unless_asked(engine, make_request, drain):
    done = drain(engine, [make_request(n, PROMPT, seed=n, max_tokens=40) for n in range(20)])
    assert any(4 in completion.token_ids for completion in done.values())
    assert all(len(completion.token_ids) == 40 for completion in done.values())


def test_refuses_what_does_not_fit(engine, make_request):
    with pytest.raises(EngineError, match="max_context=512"):
        engine.submit(make_request(0, [5] * 510, max_tokens=3))
    with pytest.raises(EngineError, match="vocabulary"):
        engine.submit(make_request(0, [5, 9999]))
    with pytest.raises(EngineError, match="does not fit"):
        engine.submit(make_request(0, []))


def test_refuses_new_weights_and_a_second_id_while_in_flight(engine, policy, make_request):
    engine.submit(make_request(7, PROMPT))
    with pytest.raises(EngineError, match="in flight"):
        engine.load_weights(99, policy.named_weights())
    with pytest.raises(EngineError, match="its own id"):
        engine.submit(make_request(7, PROMPT))
    while not engine.poll():
        pass
    assert engine.version != 99


def test_publish_is_idempotent_and_moves_the_numbers(engine, policy, another_policy, trainer_logp):
    version, calls = engine.version, []

    def weights():
        calls.append(1)
        return another_policy.named_weights()

    assert not publish(engine, version, weights)
    assert not calls
    assert publish(engine, version + 1, weights)
    assert not publish(engine, version + 1, weights)
    assert len(calls) == 1
    expected = trainer_logp(another_policy, LONG, (8, 30), 1.0)
    assert (torch.tensor(engine.score(LONG, (8, 30), 1.0)) - expected).abs().max() < 1e-4
    assert publish(engine, version + 2, policy.named_weights)
    expected = trainer_logp(policy, LONG, (8, 30), 1.0)
    assert (torch.tensor(engine.score(LONG, (8, 30), 1.0)) - expected).abs().max() < 1e-4


def test_every_tensor_exactly_once(engine, policy, make_request):
    weights = list(policy.named_weights())
    good = engine.version
    for broken, message in (
        (weights[1:], "not given"),
        ([*weights, weights[0]], "twice"),
        ([*weights, ("model.extra.weight", torch.zeros(1))], "unknown"),
    ):
        with pytest.raises(EngineError, match=message):
            engine.load_weights(good + 1, broken)
        assert engine.version == -1
        with pytest.raises(EngineError, match="publish"):
            engine.submit(make_request(0, PROMPT))
    publish(engine, good, policy.named_weights)


@pytest.fixture
def gate_check(engine, policy, make_request, drain, trainer_logp):
    """Generate with the engine, which holds ``policy`` at first and again at the end; score with the trainer, compare.

    The requests are always the same, so that the prefix cache knows them.
    """

    def check(policy, *, engine_temperature=1.0, trainer_temperature=1.0):
        requests = [
            make_request(n, LONGER[: 300 - n], seed=n, temperature=engine_temperature, max_tokens=8) for n in range(8)
        ]
        done = drain(engine, requests)
        behaviour = torch.tensor([done[r.id].logp for r in requests])
        old = torch.stack(
            [trainer_logp(policy, r.prompt_ids, done[r.id].token_ids, trainer_temperature) for r in requests]
        )
        return GATE.check(behaviour, old, torch.ones_like(old, dtype=torch.bool))

    publish(engine, engine.version + 1, policy.named_weights)
    assert check(policy)["gate/max_abs"] < 1e-4
    yield check
    publish(engine, engine.version + 1, policy.named_weights)


class TestPlantedFaults:
    def test_a_clean_publish_agrees_to_a_few_1e_5(self, engine, another_policy, gate_check):
        publish(engine, engine.version + 1, another_policy.named_weights)
        assert gate_check(another_policy)["gate/max_abs"] < 1e-4

    def test_a_stale_head(self, engine, policy, another_policy, gate_check):
        """The packed head keeps its old numbers, as a tied one does after a reload."""

        def head_from_before():
            for name, tensor in another_policy.named_weights():
                yield name, policy.lm.lm_head.weight.detach() if name == "lm_head.weight" else tensor

        publish(engine, engine.version + 1, head_from_before)
        with pytest.raises(GateError, match=FAILS):
            gate_check(another_policy)

    @pytest.mark.parametrize("engine", [VLLM], indirect=True)
    def test_a_prefix_cache_from_before(self, engine, another_policy, gate_check, monkeypatch):
        with monkeypatch.context() as fault:
            fault.setattr(engine, "_drop_prefixes", lambda: None)
            publish(engine, engine.version + 1, another_policy.named_weights)
        with pytest.raises(GateError, match=FAILS):
            gate_check(another_policy)

    def test_weights_of_the_version_before(self, another_policy, gate_check):
        with pytest.raises(GateError, match=FAILS):
            gate_check(another_policy)

    def test_another_temperature(self, policy, gate_check):
        with pytest.raises(GateError, match=FAILS):
            gate_check(policy, engine_temperature=0.7, trainer_temperature=1.0)
        assert gate_check(policy, engine_temperature=0.7, trainer_temperature=0.7)["gate/max_abs"] < 1e-4
