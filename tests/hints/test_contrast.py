"""The contrast of a mixed group: what only one side did."""

from __future__ import annotations

import pytest

from sharpo.errors import ConfigError
from sharpo.hints.attempt import TinyWording, Wording
from sharpo.hints.contrast import ContrastHint

SHORT = Wording(do="do ", avoid="avoid ", item="{action} ", closing="")


@pytest.fixture
def mixed(made):
    return made.group(
        (["look", "wait", "wait"], False), (["look", "open", "take"], True), (["jump"], False), (["take", "put"], True)
    )


def test_each_list_holds_what_the_other_side_never_did_once_and_in_order(made, mixed):
    assert [ContrastHint().lists(mixed, i) for i in range(4)] == [(["open", "take", "put"], ["wait", "jump"])] * 4
    hint, text = made.spoken(ContrastHint(), mixed, 0)
    assert (hint.source, hint.shortened) == ("contrast:3+2", False)
    assert text == (
        "For reference, only attempts at the same task that succeeded took these actions:\n- open\n- take\n- put\n"
        "For reference, only attempts at the same task that failed took these actions:\n- wait\n- jump\n"
        "Your situation now may differ; act from your own state.\n\n"
    )


def test_only_a_mixed_group_with_a_difference_has_a_contrast(made):
    assert ContrastHint().build(made.group((["a"], True), (["b"], True)), 0, made.words) is None
    assert ContrastHint().build(made.group((["a"], False), (["b"], False)), 0, made.words) is None
    assert ContrastHint().build(made.group((["a"], True), (["a "], False)), 0, made.words) is None
    _, text = made.spoken(ContrastHint(wording=SHORT), made.group((["a", "b"], True), (["a", None], False)), 0)
    assert text == "do b "


def test_the_own_episode_may_be_left_out(made, mixed):
    hint = ContrastHint(others_only=True)
    assert hint.lists(mixed, 1) == (["take", "put"], ["look", "wait", "jump"])
    assert hint.lists(mixed, 0) == (["look", "open", "take", "put"], ["jump"])
    assert hint.build(made.group((["a"], True), (["b"], False)), 0, made.words) is None


def test_sizes_bound_the_lists_and_zero_leaves_one_out(made, mixed):
    assert ContrastHint(do=1).lists(mixed, 0) == (["open"], ["wait", "jump"])
    assert made.spoken(ContrastHint(do=0, wording=SHORT), mixed, 0)[1] == "avoid wait jump "


def test_too_long_takes_from_the_longer_list_and_keeps_one_of_each(made, mixed):
    def of(budget, room=None):
        hint, text = made.spoken(ContrastHint(max_tokens=budget, wording=SHORT), mixed, 0, room)
        return hint.shortened, text

    assert of(7) == (False, "do open take put avoid wait jump ")
    assert of(6) == of(99, room=6) == (True, "do open take avoid wait jump ")
    assert of(5) == (True, "do open take avoid wait ")
    assert of(4) == (True, "do open avoid wait ")
    assert of(3) == (True, None)


def test_a_tiny_policy_reads_actions_alone(made, mixed):
    _, text = made.spoken(ContrastHint(2, 1, wording=TinyWording()), mixed, 0)
    assert text == ("<|act|>open<|end|><|obs|><|act|>take<|end|><|obs|><|end|><|obs|><|act|>wait<|end|><|obs|>")


@pytest.mark.parametrize(
    ("knobs", "message"),
    [({"do": 0, "avoid": 0}, "not both 0"), ({"do": -1}, "hint.do and hint.avoid"), ({"max_tokens": 0}, "max_tokens")],
)
def test_bad_settings_name_their_field(knobs, message):
    with pytest.raises(ConfigError, match=message):
        ContrastHint(**knobs)
