"""Engines that play text: budgets, versions, refusals."""

from __future__ import annotations

import pytest
from toy_env import ToyEnv

from sharpo.engine.expert import ExpertEngine
from sharpo.engine.scripted import ScriptedEngine
from sharpo.env import Observed
from sharpo.errors import ConfigError, DataError, EngineError
from sharpo.protocols import Request, RolloutEngine, TurnView

TASK = ToyEnv().task("train", 0)


def letters(text):
    return [ord(letter) for letter in text]


def ask(turn=0, max_tokens=9, seed=0, oracle="go", admissible=("a", "b", "help"), hinted=False):
    view = TurnView(TASK, 0, turn, Observed("x", admissible, oracle), hinted)
    return Request(turn, (1, 2, 3), max_tokens, 1.0, seed, (0,), view)


def played(engine, *requests):
    for request in requests:
        engine.submit(request)
    return ["".join(map(chr, done.token_ids)) for done in engine.poll()]


def test_a_script_is_played_turn_by_turn_and_from_the_start_again():
    engine = ScriptedEngine(["one", "two"], encode=letters)
    assert isinstance(engine, RolloutEngine)
    assert played(engine, ask(0), ask(1), ask(2)) == ["one", "two", "one"]
    assert engine.poll() == []
    by_view = ScriptedEngine(lambda view: f"t{view.turn}", encode=letters)
    assert played(by_view, ask(4)) == ["t4"]


def test_an_answer_over_its_budget_ends_by_length():
    engine = ScriptedEngine(["lengthy"], encode=letters)
    engine.submit(ask(max_tokens=3))
    (done,) = engine.poll()
    assert (len(done.token_ids), done.finish, done.logp, done.trainable) == (3, "length", (), True)


def test_a_request_beyond_the_window_and_a_score_are_refused():
    engine = ScriptedEngine(["x"], encode=letters, max_context=11)
    with pytest.raises(EngineError, match=r"12 tokens exceed engine.max_context=11"):
        engine.submit(ask(max_tokens=9))
    with pytest.raises(EngineError, match="cannot score"):
        engine.score([1], [2], 1.0)


def test_a_version_is_noted_and_closing_forgets_what_waits():
    engine = ScriptedEngine(["x"], encode=letters)
    assert engine.version == -1
    engine.load_weights(4, iter(()))
    engine.submit(ask())
    engine.close()
    assert (engine.version, engine.poll()) == (4, [])


def test_a_missing_script_and_a_missing_encoder_are_refused():
    with pytest.raises(ConfigError, match=r"engine.script is empty"):
        ScriptedEngine([])
    engine = ScriptedEngine(["x"])
    engine.submit(ask())
    with pytest.raises(ConfigError, match="no encode"):
        engine.poll()
    engine.attach(letters)
    assert played(engine, ask()) == ["x"]


def test_the_expert_plays_the_oracle_and_its_noise_follows_the_seed():
    assert played(ExpertEngine(encode=letters), ask(), ask(seed=5)) == ["go", "go"]
    noisy = ExpertEngine(noise=1.0, encode=letters)
    texts = [played(noisy, ask(seed=seed))[0] for seed in range(20)]
    assert set(texts) == {"a", "b"}
    assert texts == [played(noisy, ask(seed=seed))[0] for seed in range(20)]
    blank = {played(noisy, ask(seed=seed, admissible=("f[<x y>]", "< p", "n >")))[0] for seed in range(20)}
    assert blank == {"< p", "n >"}
    half = ExpertEngine(noise=0.5, encode=letters)
    share = sum(played(half, ask(seed=seed))[0] != "go" for seed in range(400)) / 400
    assert abs(share - 0.5) < 0.1


def test_noise_in_a_hinted_episode_is_not_trained_on():
    for hinted in (False, True):
        engine = ExpertEngine(noise=1.0, encode=letters)
        engine.submit(ask(hinted=hinted))
        assert engine.poll()[0].trainable is not hinted


def test_a_slip_mixes_two_actions_is_never_trained_on_and_leaves_the_noise_as_it_was():
    offered = ("look", "go to box 1", "take cup 2 from box 1", "help")
    engine = ExpertEngine(slips=1.0, encode=letters)
    seen = set()
    for seed in range(60):
        engine.submit(ask(seed=seed, max_tokens=40, admissible=offered))
        (done,) = engine.poll()
        assert not done.trainable
        seen.add("".join(map(chr, done.token_ids)))
    assert seen == {"look", "go to box 1", "take cup 2 from box 1"}
    mixed = ExpertEngine(slips=1.0, encode=letters)
    more = {
        played(mixed, ask(seed=seed, max_tokens=40, admissible=("go to box 1", "open jar 2")))[0] for seed in range(60)
    }
    assert more == {"go to box 1", "go to jar 2", "open jar 2", "open box 1"}
    few, both = ExpertEngine(noise=0.3, encode=letters), ExpertEngine(noise=0.3, slips=0.3, encode=letters)
    for seed in range(60):
        noisy = played(few, ask(seed=seed))[0]
        assert noisy == "go" or played(both, ask(seed=seed))[0] == noisy


def test_an_expert_without_oracle_or_choices_or_with_odd_noise_is_refused():
    for engine, request, message in (
        (ExpertEngine(encode=letters), ask(oracle=None), "no oracle"),
        (ExpertEngine(noise=1.0, encode=letters), ask(admissible=("help",)), "lists no actions"),
    ):
        engine.submit(request)
        with pytest.raises(DataError, match=message):
            engine.poll()
    with pytest.raises(ConfigError, match=r"engine\.noise=1.5: must be at least 0 and at most 1"):
        ExpertEngine(noise=1.5)
    with pytest.raises(ConfigError, match=r"engine.slips must be in \[0, 1 - noise = 0.8\]"):
        ExpertEngine(noise=0.2, slips=0.9)
