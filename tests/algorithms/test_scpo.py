"""SCPO: hand-derived values, which steps can earn, the similarity as a part, laws, and a plain loop."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stories import random_story, shuffled, story

from sharpo.algorithms.baseline import Baseline
from sharpo.algorithms.gigpo import Gigpo
from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.algorithms.scpo import Scpo, Step, TokenOverlap
from sharpo.errors import ConfigError

PLAIN = PolicyLoss()
MEAN_NORM = Baseline(norm_by_std=False)


@dataclass(frozen=True)
class Same:
    """1 for the same observation and action, else 0."""

    def __call__(self, failed: Sequence[Step], successful: Sequence[Step]) -> torch.Tensor:
        """Return the match of every failed step with every successful one."""
        return torch.tensor([[float(a == b) for b in successful] for a in failed])


SCPO = Scpo(policy_loss=PLAIN, similarity=Same(), beta=2.0, gamma=0.5, baseline=MEAN_NORM)
WON = [("s0", "a", "s1"), ("s1", "b", "s2"), ("s2", "c", "s3"), ("s3", "d", "won", 10.0)]
LOST = [("s0", "a", "s5"), ("s5", "x", "s2"), ("s2", "c", "s1"), ("s1", "b", "s2"), ("s2", "c", "s3")]


def test_progress_by_hand(assert_golden):
    # LOST along WON's four steps: place 1: 1/4; no match; place 3: 2/4; place 2, behind; place 3, not new
    assert_golden(SCPO.progress(story(WON, LOST)), [0.0] * 4 + [0.25, 0.0, 0.5, 0.0, 0.0])


def test_advantages_by_hand(assert_golden):
    # bonus 2*progress = 0.5, 0, 1, 0, 0. R of LOST from its end: 0, 0, 1, 0.5, 0.5 + 0.25 = 0.75
    # R of WON: 1.25, 2.5, 5, 10. A^E: mu 40/9 = 4.4444: 5.5556, -4.4444
    # s0 {1.25, 0.75}: +-0.25. s1 {2.5, 0}: +-1.25. s2 {5, 1, 0}: mu 2: 3, -1, -2. s3 and s5 alone
    group = story(WON, LOST)
    expected = [5.8056, 6.8056, 8.5556, 5.5556, -4.6944, -4.4444, -5.4444, -5.6944, -6.4444]
    assert_golden(SCPO.base_advantages(group), expected, printed_decimals=4)
    # mean_std: A^E sigma sqrt((4*5.5556^2 + 5*4.4444^2)/8) = 5.27046: 1.05409, -0.84327
    # pairs +-0.70711; s2: sigma sqrt((9 + 1 + 4)/2) = 2.64575: 1.13389, -0.37796, -0.75593
    expected = [1.7612, 1.7612, 2.1880, 1.0541, -1.5504, -0.8433, -1.2212, -1.5504, -1.5992]
    assert_golden(replace(SCPO, baseline=Baseline()).base_advantages(group), expected, printed_decimals=4)


def test_a_bonus_on_the_return_is_not_discounted_to_earlier_steps(assert_golden):
    # R of LOST = 0.5, 0, 1, 0, 0: s0 {1.25, 0.5}: +-0.375; s1 and s2 as before
    at_return = replace(SCPO, bonus_at="return")
    assert_golden(at_return.steps(story(WON, LOST))[0], [1.25, 2.5, 5.0, 10.0, 0.5, 0.0, 1.0, 0.0, 0.0])
    expected = [5.9306, 6.8056, 8.5556, 5.5556, -4.8194, -4.4444, -5.4444, -5.6944, -6.4444]
    assert_golden(at_return.base_advantages(story(WON, LOST)), expected, printed_decimals=4)


def test_the_sibling_is_the_shortest_success_or_the_first(assert_golden):
    # the step (s0, a) stands at place 2 of 3 on the detour, which comes first, and at place 1 of 2 on the short way
    detour = [("s0", "z", "s0"), ("s0", "a", "s1"), ("s1", "b", "won", 10.0)]
    short = [("s0", "a", "s1"), ("s1", "b", "won", 10.0)]
    lost = [("s0", "a", "s9"), ("s9", "a", "s9")]
    group = story(detour, short, lost)
    assert_golden(SCPO.progress(group), [0.0] * 5 + [1 / 2, 0.0])
    assert_golden(replace(SCPO, sibling="first").progress(group), [0.0] * 5 + [2 / 3, 0.0])


def test_a_turn_without_an_action_neither_earns_nor_is_a_place(assert_golden):
    won = [("s0", None, "s0"), ("s0", "a", "won", 10.0)]
    assert_golden(SCPO.progress(story(won, [("s0", None, "s0"), ("s0", "a", "s7")])), [0.0, 0.0, 0.0, 1.0])


def test_each_failed_episode_starts_at_the_beginning(assert_golden):
    first = [("s0", "a", "s9")]
    group = story(first, WON, LOST[:3])
    assert_golden(SCPO.progress(group), [0.25, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.5])


def test_success_is_the_outcomes_word_not_the_rewards(assert_golden):
    group = story([("s0", "a", "s1")], [("s0", "a", "s2", 3.0)], won=[True, False])
    assert_golden(SCPO.progress(group), [0.0, 1.0])


@pytest.mark.parametrize("won", [[True, True], [False, False]])
def test_a_group_of_one_kind_is_gigpos_bit_for_bit(won):
    group = story(WON, LOST, won=won)
    gigpo = Gigpo(policy_loss=PLAIN, gamma=0.5, baseline=MEAN_NORM)
    assert torch.equal(SCPO.base_advantages(group), gigpo.base_advantages(group))
    report = SCPO.group_report(group)
    assert all(report[name] != report[name] for name in ("bonus_share", "sibling_progress"))


def test_without_a_bonus_it_is_gigpo():
    gigpo = Gigpo(policy_loss=PLAIN, gamma=0.5, baseline=MEAN_NORM)
    for same in (replace(SCPO, beta=0.0), replace(SCPO, threshold=1.0)):
        assert torch.equal(same.base_advantages(story(WON, LOST)), gigpo.base_advantages(story(WON, LOST)))


def _reference_bonus(group, similarity, beta, threshold):
    won = [e for e in group.episodes if e.outcome.success]
    out = []
    for episode in group.episodes:
        furthest = 0
        for turn in episode.turns:
            bonus = 0.0
            if won and not episode.outcome.success and turn.action is not None:
                sibling = sorted(won, key=lambda e: len(e.turns))[0]
                best, place = -1.0, 0
                for n, other in enumerate(sibling.turns):
                    if other.action is None:
                        continue
                    pair = ([(turn.observation, turn.action)], [(other.observation, other.action)])
                    score = float(similarity(*pair))
                    if score > best:
                        best, place = score, n + 1
                if best > threshold and place > furthest:
                    bonus, furthest = beta * (place - furthest) / len(sibling.turns), place
            out.append(bonus)
    return out


def _reference_scpo(group, similarity, beta, threshold, gamma, bonus_at):
    bonus = _reference_bonus(group, similarity, beta, threshold)
    totals, returns, names, at = [], [], [], 0
    for episode in group.episodes:
        size = len(episode.turns)
        for k, turn in enumerate(episode.turns):
            totals.append(episode.episode_return - turn.penalty)
            value = sum(gamma**j * t.reward for j, t in enumerate(episode.turns[k:])) - turn.penalty
            if bonus_at == "reward":
                value += sum(gamma**j * bonus[at + k + j] for j in range(size - k))
            else:
                value += bonus[at + k]
            returns.append(value)
            names.append(turn.observation)
        at += size

    def relative(value, others):
        return 0.0 if max(others) - min(others) < 1e-9 else (value - mean(others)) / (stdev(others) + 1e-6)

    return [
        relative(totals[i], totals)
        + relative(returns[i], [r for r, name in zip(returns, names, strict=True) if name == names[i]])
        for i in range(len(names))
    ]


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([Same(), TokenOverlap()]),
    st.sampled_from([0.3, 0.5]),
    st.sampled_from(["reward", "return"]),
)
def test_equals_a_plain_loop(seed, similarity, threshold, bonus_at):
    group = random_story(seed)
    algorithm = Scpo(
        policy_loss=PLAIN, similarity=similarity, beta=3.0, threshold=threshold, gamma=0.9, bonus_at=bonus_at
    )
    expected = torch.tensor(_reference_scpo(group, similarity, 3.0, threshold, 0.9, bonus_at))
    torch.testing.assert_close(algorithm.base_advantages(group), expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_an_episode_earns_at_most_beta_and_the_order_of_episodes_does_not_matter(seed):
    group = random_story(seed)
    algorithm = replace(SCPO, similarity=TokenOverlap())
    progress = algorithm.progress(group)
    at = 0
    for episode in group.episodes:
        own = progress[at : at + len(episode.turns)]
        assert float(own.sum()) <= 1 + 1e-9
        assert not own.any() or not episode.outcome.success
        at += len(episode.turns)
    other, moved = shuffled(group, seed)
    lengths = [len(e.turns) for e in group.episodes if e.outcome.success]
    if lengths.count(min(lengths, default=0)) <= 1:  # of equally short siblings the first in order is taken
        torch.testing.assert_close(algorithm.base_advantages(other), algorithm.base_advantages(group)[moved])


def test_by_default_the_same_move_at_another_place_is_no_match(assert_golden):
    look = "You arrive at shelf {}. On the shelf {}, you see a mug 1."
    won = [("Hello.", "go to shelf 1", look.format(1, 1)), (look.format(1, 1), "take mug 1 from shelf 1", "won", 10.0)]
    lost = [("hello", "go to shelf 2", look.format(2, 2)), (look.format(2, 2), "take mug 1 from shelf 2", "yours")]
    assert Scpo(policy_loss=PLAIN).progress(story(won, lost)).tolist() == [0.0] * 4
    right = [("hello!", "Go to shelf 1", look.format(1, 1)), (look.format(1, 1), "look", "nothing")]
    assert_golden(Scpo(policy_loss=PLAIN).progress(story(won, right)), [0.0, 0.0, 0.5, 0.0])


def test_token_overlap_by_hand(assert_golden):
    # observations {you, see, a, mug} and {you, see, a, pen}: 3/5; actions {take, mug} and {take, pen}: 1/3
    pair = ([("You see a mug.", "take mug")], [("you see a PEN", "take pen")])
    assert_golden(TokenOverlap()(*pair), [[0.5 * 0.6 + 0.5 / 3]])
    assert_golden(TokenOverlap(action_share=0.0)(*pair), [[0.6]])
    assert_golden(TokenOverlap(action_share=1.0)(*pair), [[1 / 3]])
    assert TokenOverlap()([("", "")], [("", "")]).tolist() == [[1.0]]
    assert TokenOverlap()([], [("a", "b")]).shape == (0, 1)


def test_the_report_says_how_far_failed_episodes_came():
    # of LOST's five turns two earn; it comes 3/4 of the way
    report = SCPO.group_report(story(WON, LOST))
    assert (report["bonus_share"], report["sibling_progress"]) == pytest.approx((0.4, 0.75))
    assert tuple(report) == SCPO.group_report_names


@pytest.mark.parametrize(
    ("knob", "value"),
    [("beta", -1.0), ("sibling", "longest"), ("bonus_at", "end"), ("similarity", "words"), ("gamma", 2.0)],
)
def test_wrong_knobs_name_themselves(knob, value):
    with pytest.raises(ConfigError, match=rf"algorithm\.{knob}.*{value}"):
        replace(SCPO, **{knob: value})
    with pytest.raises(ConfigError, match="action_share"):
        TokenOverlap(action_share=1.5)


def test_a_group_is_judged_once_for_advantages_and_report():
    from sharpo.hints.none import NoHint
    from sharpo.rollout.collate import collate

    asked = []

    @dataclass(frozen=True)
    class Noted(Same):
        def __call__(self, failed, successful):
            asked.append((tuple(failed), tuple(successful)))
            return super().__call__(failed, successful)

    groups = [story(WON, LOST), story(WON, [("s0", "a", "s9")])]
    made = collate(groups, replace(SCPO, similarity=Noted()), NoHint(), lambda text: [len(text)])
    assert len(asked) == 2
    assert asked[0] != asked[1]
    expected = torch.cat([SCPO.base_advantages(group) for group in groups])
    assert torch.equal(made.segments.base, expected)
    assert made.groups["bonus_share"] == sum(SCPO.group_report(group)["bonus_share"] for group in groups)
