"""The outcome hint: the episode's own end."""

from __future__ import annotations

import pytest

from sharpo.errors import ConfigError
from sharpo.hints.attempt import TinyWording, Wording
from sharpo.hints.outcome import OutcomeHint


def test_every_episode_is_told_its_own_end(made):
    group = made.group((["a", "b"], True), (["c"], False))
    hint, text = made.spoken(OutcomeHint(), group, 0)
    assert (hint.source, hint.shortened) == ("outcome:success", False)
    assert text == "For reference, the attempt that follows succeeds. Its last observation: the end\n\n"
    hint, text = made.spoken(OutcomeHint(), group, 1)
    assert (hint.source, text.split()[6]) == ("outcome:failure", "fails.")


def test_the_score_may_be_told(made):
    won = made.episode(0, ["a"], False, score=0.5)
    group = type(made.group((["a"], True), (["a"], True)))(won.task, (won, made.episode(1, ["a"], True)))
    wording = Wording(failed="score {score}")
    assert made.spoken(OutcomeHint(wording=wording), group, 0)[1] == "score 0.50"


def test_a_long_observation_is_cut_by_characters_and_then_loses_words_from_its_end(made):
    group = made.group((["a"], True), (["b"], False))
    episodes = (made.episode(0, ["a"], True, ends="one two three four"), group.episodes[1])
    group = type(group)(group.task, episodes)
    wording = Wording(succeeded="{observation} so ends", obs_chars=14)
    assert made.spoken(OutcomeHint(wording=wording), group, 0)[1] == "one two three ... so ends"
    hint, text = made.spoken(OutcomeHint(4, wording), group, 0)
    assert (hint.shortened, text) == (True, "one two so ends")
    assert made.spoken(OutcomeHint(wording=wording), group, 0, room=2)[1] == " so ends"
    assert OutcomeHint(1, wording).build(group, 0, made.words).ids == ()


def test_a_tiny_policy_is_told_in_its_own_words(made):
    group = made.group((["a"], True), (["b"], False))
    texts = [made.spoken(OutcomeHint(wording=TinyWording()), group, member)[1] for member in range(2)]
    assert texts == ["the end<|act|><|end|><|obs|>", "the end<|end|><|obs|>"]


def test_a_bad_budget_is_refused():
    with pytest.raises(ConfigError, match=r"hint.max_tokens must be >= 1, got 0"):
        OutcomeHint(0)
