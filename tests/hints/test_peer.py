"""Peer hints: who the peer is, the words, and shortening by rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharpo.episode import Episode, EpisodeGroup, Outcome, Task, Turn
from sharpo.errors import ConfigError
from sharpo.hints.attempt import Wording, clip, middle_out
from sharpo.hints.none import NoHint
from sharpo.hints.peer import PeerHint, likeness

TASK = Task("t/1", "pick", "put a key on the table", 0)


def words(text):
    """One token for each word, so that budgets are counted in words."""
    return list(range(len(text.split())))


def episode(member, turns, success, version=0):
    steps = tuple(
        Turn((1,), (2,), (), f"act{k}", f"act{k}" if k is not None else None, {}, f"saw{k} long words here",
             f"got{k}", 0.0, 0.0, "stop", 0)
        for k in (range(turns) if isinstance(turns, int) else turns)
    )  # fmt: skip
    return Episode(TASK, steps, Outcome(success, float(success), success, not success), version, member)


def group(*specs):
    return EpisodeGroup(TASK, tuple(episode(i, turns, success) for i, (turns, success) in enumerate(specs)))


GROUP = group((2, False), (5, True), (3, True), (4, False), (4, True))


@pytest.fixture
def spoken():
    """The text of a hint, through a tokenizer that remembers what it was last given."""

    def build(hint, of, member, room=None):
        texts = {}

        def tokenize(text):
            ids = words(text)
            texts[len(ids)] = text
            return ids

        built = hint.build(of, member, tokenize, room)
        return built, None if built is None else texts[len(built.ids)]

    return build


def test_the_first_successful_other_rollout_is_shown(spoken):
    assert [PeerHint().peers(GROUP, i) for i in range(5)] == [(1,), (2,), (1,), (1,), (1,)]
    assert [PeerHint("shortest").peers(GROUP, i) for i in range(5)] == [(2,), (2,), (4,), (2,), (2,)]
    hint, text = spoken(PeerHint(), GROUP, 1)
    assert (hint.source, hint.shortened) == ("peer:2", False)
    assert text.startswith("For reference, an attempt at the same task that succeeded:\nstep 1: saw: saw0 long words")
    assert "step 3: saw: saw2 long words here\n        did: act2\n" in text
    assert text.endswith("act from your own state.\n\n")


def test_no_other_success_is_no_hint():
    alone = group((2, True), (3, False))
    assert PeerHint().build(alone, 0, words) is None
    assert PeerHint().build(alone, 1, words) is not None
    assert NoHint().build(GROUP, 0, words) is None


def test_a_random_peer_is_the_same_each_time_and_not_always_the_same_one():
    chosen = {PeerHint("random", seed=seed).peers(GROUP, 0)[0] for seed in range(20)}
    assert chosen == {1, 2, 4}
    assert len({PeerHint("random", seed=3).peers(GROUP, 0) for _ in range(5)}) == 1


def test_turns_without_an_action_are_not_shown(spoken):
    messy = group((1, False), ([0, None, 2], True))
    _, text = spoken(PeerHint(), messy, 0)
    assert "step 2: saw: saw2 long words here" in text
    assert "None" not in text


def test_too_long_drops_observations_from_the_middle_then_steps_from_the_middle(spoken):
    five = group((1, False), (5, True))
    wording = Wording("", "{observation} {action} ", "{action} ", "left-out-{count} ", "")
    whole, text = spoken(PeerHint(wording=wording), five, 0)
    assert len(whole.ids) == 25
    shorter, text = spoken(PeerHint(wording=wording, max_tokens=24), five, 0)
    assert (shorter.shortened, text.split()) == (True, [*_full(0), *_full(1), "act2", *_full(3), *_full(4)])
    _, text = spoken(PeerHint(wording=wording, max_tokens=9), five, 0)
    assert text.split() == ["act0", "act1", "act2", "act3", *_full(4)]
    _, text = spoken(PeerHint(wording=wording, max_tokens=5), five, 0)
    assert text.split() == ["act0", "act1", "act2", "act3", "act4"]
    _, text = spoken(PeerHint(wording=wording, max_tokens=4), five, 0)
    assert text.split() == ["act0", "left-out-2", "act3", "act4"]
    _, text = spoken(PeerHint(wording=wording, max_tokens=3), five, 0)
    assert text.split() == ["act0", "left-out-3", "act4"]
    empty = PeerHint(wording=wording, max_tokens=2).build(five, 0, words)
    assert (empty.ids, empty.source) == ((), "peer:1")
    _, text = spoken(PeerHint(wording=wording), five, 0, room=9)  # the room beside the row counts like the budget
    assert text.split() == ["act0", "act1", "act2", "act3", *_full(4)]
    assert PeerHint(wording=wording).build(five, 0, words, 2).ids == ()


def _full(k):
    return [f"saw{k}", "long", "words", "here", f"act{k}"]


def test_actions_only_and_short_observations(spoken):
    _, text = spoken(PeerHint(render="actions_only"), GROUP, 0)
    assert "saw" not in text.replace("saw:", "")
    assert "step 5: did: act4\n" in text
    _, text = spoken(PeerHint(wording=Wording(obs_chars=10)), GROUP, 0)
    assert "saw: saw0 long ...\n" in text


def test_full_shows_all_that_the_peer_wrote(spoken):
    turn = episode(0, 1, True).turns[0]
    peer = Episode(TASK, (replace(turn, text=" think first act0 "),), Outcome(True, 1.0, True, False), 0, 1)
    _, text = spoken(PeerHint(render="full"), EpisodeGroup(TASK, (GROUP.episodes[0], peer)), 0)
    assert "did: think first act0\n" in text
    _, text = spoken(PeerHint(), EpisodeGroup(TASK, (GROUP.episodes[0], peer)), 0)
    assert "did: act0\n" in text


def test_the_closest_peer_saw_most_of_what_the_learner_saw():
    learner = episode(0, [0, 1, 2], False)
    others = [
        episode(1, [7, 8], True),
        episode(2, [1, 2, 9], True),
        episode(3, [1], False),
        episode(4, [2, 1, 0], True),
    ]
    of = EpisodeGroup(TASK, (learner, *others))
    assert PeerHint("closest_obs").peers(of, 0) == (4,)
    assert PeerHint("closest_obs").peers(of, 4) == (2,)
    assert likeness(learner, others[1]) == 2 / 4
    assert likeness(learner, others[0]) == 0


def test_all_peers_follow_one_another_and_those_that_do_not_fit_whole_are_left_out(spoken):
    several = group((1, False), (1, True), (3, True), (1, True))
    wording = Wording("", "{observation} {action} ", "{action} ", "", "")
    hint = PeerHint("all_concat", wording=wording).build(several, 0, words)
    assert (len(hint.ids), hint.source, hint.shortened) == (5 + 15 + 5, "peer:1+2+3", False)
    hint = PeerHint("all_concat", wording=wording, max_tokens=12).build(several, 0, words)
    assert (len(hint.ids), hint.source, hint.shortened) == (10, "peer:1+3", True)
    assert PeerHint("all_concat", wording=wording).build(several, 1, words).source == "peer:2+3"


def test_without_a_peer_success_may_be_supposed(spoken):
    alone = group((2, True), (3, False))
    hint, text = spoken(PeerHint(fallback="outcome_label"), alone, 0)
    assert (hint.source, text) == ("outcome", "For reference, the attempt that follows succeeds.\n\n")
    hint, _ = spoken(PeerHint(fallback="outcome_label"), alone, 1)
    assert hint.source == "peer:0"
    assert PeerHint(fallback="outcome_label", max_tokens=3).build(alone, 0, words).ids == ()


def test_clip_and_middle_out():
    assert clip("a  b\nc", None) == "a b c"
    assert clip("abcdefgh", 3) == "abc ..."
    assert middle_out(4) == [1, 2, 0, 3]
    assert middle_out(0) == []


@pytest.mark.parametrize(
    ("knobs", "field"),
    [({"pick": "best"}, "hint.pick must be one of first, shortest"), ({"render": "whole"}, "hint.render"),
     ({"max_tokens": 0}, "hint.max_tokens"),
     ({"fallback": "skill"}, "hint.fallback must be one of none, outcome_label, replay"),
     ({"fallback": "skills"}, "hint=peer_or_skill"), ({"fallback": "replay_buffer", "remember": 0}, "hint.remember")],
)  # fmt: skip
def test_bad_settings_name_their_field(knobs, field):
    with pytest.raises(ConfigError, match=field):
        PeerHint(**knobs)


def test_wording_with_an_unknown_field_is_refused():
    with pytest.raises(ConfigError, match=r"wording.step uses \['weather'\]"):
        Wording(step="{weather}")
    with pytest.raises(ConfigError, match=r"wording.obs_chars must be >= 1 or null, got 0"):
        Wording(obs_chars=0)
