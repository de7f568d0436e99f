"""Renderer: append-only conversations, windowed prompts, the hint's place, spans, refusals."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from toy_env import CHAT_TEMPLATE, ToyEnv, save_toy_tokenizer

from sharpo.env import Observed, parse_plain, parse_tags
from sharpo.episode import Turn
from sharpo.errors import ConfigError, DataError
from sharpo.rollout.prompts import Template
from sharpo.rollout.render import Renderer
from sharpo.rollout.spans import token_chars, token_spans

TASK = ToyEnv().task("train", 0)
START = Observed("you are at the table .", ("look", "help"))
ACTIONS = ["go to box 1", "take key", "wash key", "put key", "look"]


def turn_after(renderer, prompt, action_ids, finish="stop", observation="you are at the table ."):
    text = renderer.text(action_ids)
    parsed = parse_plain(text)
    return Turn(
        prompt.ids, tuple(action_ids), (), text, parsed.action if parsed else None,
        renderer.spans(action_ids, parsed), observation, "nothing happens .", 0.0, 0.0, finish, prompt.hint_at,
    )  # fmt: skip


def test_append_prompt_is_the_last_prompt_and_the_sampled_ids_plus_the_next_message(toy_renderer):
    prompt = toy_renderer.prompt(TASK, [], START)
    assert toy_renderer.decode(prompt.ids) == "<|user|> you are at the table . <|end|> <|assistant|>"
    turn = turn_after(toy_renderer, prompt, toy_renderer.action_ids("go to box 1"))
    following = toy_renderer.prompt(TASK, [turn], Observed("you are at box 1 ."))
    before = prompt.ids + turn.action_ids
    assert following.ids[: len(before)] == before
    assert toy_renderer.decode(following.ids[len(before) :]) == "<|user|> you are at box 1 . <|end|> <|assistant|>"
    assert following.hint_at == prompt.hint_at == 1


def test_append_prompt_equals_the_chat_template_on_the_whole_conversation(toy_renderer):
    prompt = toy_renderer.prompt(TASK, [], START)
    turn = turn_after(toy_renderer, prompt, toy_renderer.action_ids("look"))
    following = toy_renderer.prompt(TASK, [turn], Observed("you are at box 1 ."))
    talk = [("user", START.text), ("assistant", "look"), ("user", "you are at box 1 .")]
    assert list(following.ids) == toy_renderer.tokenize(toy_renderer._chat(talk))


def test_a_turn_cut_by_its_budget_gets_its_end_of_turn_as_context(toy_renderer):
    prompt = toy_renderer.prompt(TASK, [], START)
    cut = turn_after(toy_renderer, prompt, toy_renderer.tokenize("go to"), finish="length")
    following = toy_renderer.prompt(TASK, [cut], START)
    end = toy_renderer.turn_end[0]
    assert following.ids[: len(prompt.ids) + 3] == (*prompt.ids, *cut.action_ids, end)
    whole = turn_after(toy_renderer, prompt, [*toy_renderer.tokenize("go to"), end])
    assert toy_renderer.prompt(TASK, [whole], START).ids == following.ids


@pytest.mark.parametrize("style", ["append", "windowed"])
def test_a_prompt_that_is_too_long_loses_its_beginning(toy_tokenizer, style):
    whole = Renderer(toy_tokenizer, style=style, template="household_plain")
    first = whole.prompt(TASK, [], START)
    turn = turn_after(whole, first, whole.action_ids("look"))
    full = whole.prompt(TASK, [turn], START)
    for most in (1, 3, len(full.ids) - 1, len(full.ids)):
        renderer = Renderer(toy_tokenizer, style=style, template="household_plain", most_tokens=most)
        cut = renderer.prompt(TASK, [turn], START)
        over = len(full.ids) - most
        assert (cut.ids, cut.cut, cut.hint_at) == (full.ids[over:], over, max(0, full.hint_at - over))
    assert full.cut == 0


def test_a_growing_context_goes_on_from_what_was_left_of_it(toy_tokenizer):
    renderer = Renderer(toy_tokenizer, style="append", template="household_plain", most_tokens=10)
    first = renderer.prompt(TASK, [], START)
    second = renderer.prompt(TASK, [one := turn_after(renderer, first, renderer.action_ids("look"))], START)
    following = renderer.prompt(TASK, [one, turn_after(renderer, second, renderer.action_ids("look"))], START)
    assert len(second.ids) == len(following.ids) == 10
    tail = (*second.ids, *renderer.action_ids("look"))
    added = following.cut + 10 - len(tail)
    assert following.ids[:-added] == tail[following.cut :]


@pytest.mark.parametrize("knobs", [{"most_tokens": 0}, {"observation_tokens": 0}])
def test_token_limits_out_of_range_are_refused(toy_tokenizer, knobs):
    with pytest.raises(ConfigError, match=f"prompt.{next(iter(knobs))}"):
        Renderer(toy_tokenizer, style="append", template="household_plain", **knobs)


def test_a_windowed_message_that_is_too_long_is_written_without_history(toy_tokenizer, monkeypatch):
    written = []
    monkeypatch.setattr(Renderer, "_fresh", lambda self, before, after: written.append(before + after))
    turns = [Turn((1,), (2,), (), "", "look", {}, f"saw {n}", "x", 0.0, 0.0, "stop", 0) for n in range(3)]
    for most in (None, 3000, 300):
        renderer = Renderer(toy_tokenizer, style="windowed", template="webshop_windowed", most_chars=most)
        renderer.prompt(TASK, turns, START)
    free, roomy, short = written
    assert free == roomy
    assert [("saw 0" in text, "saw 1" in text, "saw 2" in text) for text in (free, short)] == [
        (False, True, True), (False, False, False),
    ]  # fmt: skip
    assert short == "".join(Template.load("webshop_windowed_first").fill(TASK, (), START, 0))
    with pytest.raises(ConfigError, match=r"prompt\.most_chars=5"):
        Renderer(toy_tokenizer, style="append", template="household_plain", most_chars=5)


def test_a_chat_template_that_is_not_append_only_is_refused(tmp_path):
    strips = CHAT_TEMPLATE.replace("m['content'] +", "m['content'].split('</think>')[-1] +")
    folder = str(save_toy_tokenizer(tmp_path, strips))
    with pytest.raises(ConfigError, match="not append-only"):
        Renderer(folder, style="append", template="household_plain")
    assert Renderer(folder, style="windowed", template="alfworld_windowed").turn_end


def test_a_chat_template_that_rewrites_the_message_or_is_missing_is_refused(tmp_path, toy_tokenizer):
    shouts = str(save_toy_tokenizer(tmp_path, CHAT_TEMPLATE.replace("m['content']", "m['content'] | upper")))
    with pytest.raises(ConfigError, match="chat template"):
        Renderer(shouts, style="append", template="household_plain")
    with pytest.raises(DataError, match="no tokenizer"):
        Renderer(str(tmp_path / "absent"), style="append", template="household_plain")
    with pytest.raises(ConfigError, match=r"no file envs/prompts/nope_first\.txt"):
        Renderer(toy_tokenizer, style="append", template="nope")


@pytest.mark.parametrize(
    ("knobs", "field"),
    [
        ({"style": "sideways"}, "prompt.style"),
        ({"history": -1}, "prompt.history"),
        ({"action_format": "xml"}, "format"),
    ],
)
def test_bad_settings_name_their_field(toy_tokenizer, knobs, field):
    with pytest.raises(ConfigError, match=field):
        Renderer(toy_tokenizer, **{"style": "append", "template": "household_plain", **knobs})


def test_unknown_words_are_named(toy_renderer):
    with pytest.raises(DataError, match=r"does not know \['microwave', 'zebra'\]"):
        toy_renderer.tokenize("go to zebra microwave")


def test_every_packaged_template_fills_and_marks_the_hint():
    observed = Observed("you see a key .", ("look", "help", "take key"))
    turn = Turn((1,), (2,), (), "look", "look", {}, "you saw", "next", 0.0, 0.0, "stop", 0)
    for name in ("alfworld_windowed_first", "alfworld_windowed", "alfworld_append_first", "household_plain_first"):
        before, after = Template.load(name).fill(TASK, [turn] * 3, observed, 2)
        assert Template.load(name).hinted
        assert "you see a key ." in before + after
        assert "help'" not in before + after
        assert "{" not in before + after
    assert not Template.load("alfworld_append").hinted


def test_windowed_message_shows_the_last_pairs_the_steps_and_the_hint_before_the_instructions():
    turns = [
        Turn((1,), (2,), (), a or "", a, {}, f"saw {a}", "next", 0.0, 0.0, "stop", 0) for a in ("one", "two", None)
    ]
    before, after = Template.load("alfworld_windowed").fill(TASK, turns, START, 2)
    assert "saw one" not in before
    assert "[Turn 2] saw: 'saw two' did: 'two'\n[Turn 3] saw: 'saw None' did: '(no valid action)'" in before
    assert "taken 3 step" in before
    assert "This is step 4" in before
    assert after.startswith("It is your turn to act.")
    assert "<action>" in after


def test_templates_refuse_unknown_fields_two_markers_and_missing_admissible_actions():
    with pytest.raises(ConfigError, match="uses \\['weather'\\]"):
        Template.parse("t", "{weather}")
    with pytest.raises(ConfigError, match="2 lines"):
        Template.parse("t", "{hint}\na\n{hint}")
    with pytest.raises(DataError, match="gave none"):
        Template.parse("t", "{admissible}").fill(TASK, [], Observed("x"), 2)


@given(words=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=3), thought=st.lists(st.sampled_from(ACTIONS)))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_render_then_spans_then_decode_returns_the_action(toy_tokenizer, words, thought):
    action = " ".join(words)
    plain = Renderer(toy_tokenizer, style="append", template="household_plain", action_format="plain")
    ids = plain.action_ids(action)
    start, stop = plain.spans(ids, parse_plain(plain.text(ids)))["action"]
    assert (plain.decode(ids[start:stop]), stop) == (action, len(ids) - 1)

    tags = Renderer(toy_tokenizer, style="append", template="household_plain", action_format="tags")
    ids = [*tags.tokenize(f"<think>{' '.join(thought)}</think> <action>{action}</action> look"), tags.turn_end[0]]
    parsed = parse_tags(tags.text(ids))
    assert parsed is not None
    spans = tags.spans(ids, parsed)
    assert tags.decode(ids[slice(*spans["action"])]) == parsed.action == action
    assert tags.decode(ids[slice(*spans["action_with_tags"])]) == f"<action> {action} </action>"
    if thought:
        assert tags.decode(ids[slice(*spans["think"])]) == " ".join(thought)


def test_tags_expert_writes_what_the_parser_reads(toy_tokenizer):
    tags = Renderer(toy_tokenizer, style="append", template="household_plain", action_format="tags")
    parsed = parse_tags(tags.text(tags.action_ids("take key")))
    assert parsed is not None
    assert parsed.action == "take key"


@given(text=st.text(alphabet="ab é—漢🙂<>", min_size=1, max_size=12), data=st.data())
@settings(max_examples=60, deadline=None)
def test_spans_of_byte_tokens_cover_exactly_the_characters_asked_for(text, data):
    raw = text.encode()
    low = data.draw(st.integers(0, len(text) - 1))
    high = data.draw(st.integers(low + 1, len(text)))
    spans = token_spans(list(raw), {"action": (low, high)}, lambda ids: bytes(ids).decode("utf-8", errors="replace"))
    start, stop = spans.get("action", (0, 0))
    assert bytes(raw[start:stop]).decode() == text[low:high].strip()


def test_token_chars_of_byte_pairs_and_of_nothing():
    letters = list("a\u00e9".encode())  # the second letter is two bytes: both have its range
    assert token_chars(letters, lambda ids: bytes(ids).decode("utf-8", errors="replace")) == [(0, 1), (1, 2), (1, 2)]
    assert token_chars([], lambda ids: "") == []
    assert token_spans([1], {}, lambda ids: "x") == {}


CHATML = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}"
    "{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def byte_renderer(tmp_path_factory):
    """A byte-level tokenizer with ChatML, as instruction-tuned models have: any text, no unknown token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"], chat_template=CHATML,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("bytes")
    tokenizer.save_pretrained(folder)
    return Renderer(str(folder), style="append", template="alfworld_append")


def test_an_observation_is_cut_after_its_tokens_and_never_inside_a_letter(byte_renderer):
    seen = Observed("caf\u00e9 \u6f22!", ("look",), "look")
    for most, text in (
        (3, "caf"),
        (4, "caf"),
        (5, "caf\u00e9"),
        (6, "caf\u00e9 "),
        (8, "caf\u00e9 "),
        (9, "caf\u00e9 \u6f22"),
    ):
        renderer = Renderer(byte_renderer.path, style="append", template="alfworld_append", observation_tokens=most)
        assert renderer.shown(seen) == Observed(text, ("look",), "look")
    assert byte_renderer.shown(seen) is seen
    same = Renderer(byte_renderer.path, style="append", template="alfworld_append", observation_tokens=10)
    assert same.shown(seen) is seen


def test_chatml_conversations_are_built_token_for_token(byte_renderer):
    observed = Observed("caf\u00e9 \u2014 a table", ("look", "help"))
    prompt = byte_renderer.prompt(TASK, [], observed)
    head = byte_renderer.decode(prompt.ids[: prompt.hint_at])
    assert head.startswith("<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nYou are an expert agent")
    assert head.endswith("are: ['look']\n\n")
    written = byte_renderer.tokenize("<think>\u6f22 \U0001f642</think><action>look</action>")
    turn = turn_after(byte_renderer, prompt, [*written, byte_renderer.turn_end[0]])
    following = byte_renderer.prompt(TASK, [turn], observed)
    added = byte_renderer.decode(following.ids[len(prompt.ids) + len(written) + 1 :])
    assert added.startswith("\n<|im_start|>user\nWhat you see now: caf\u00e9")
    assert added.endswith("<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize("style", ["append", "windowed"])
@pytest.mark.parametrize(
    ("place", "before", "after"),
    [
        ("before_instructions", "are: ['look']\n\n", ""),
        ("user_top", "<|im_start|>user\n", "You are an expert agent"),
        ("assistant_prefix", "<|im_start|>assistant\n", ""),
        ("before_chat_template", "", "<|im_start|>system\n"),
    ],
)
def test_a_hint_goes_where_it_is_wanted_and_the_prompt_is_the_same(byte_renderer, style, place, before, after):
    observed = Observed("a table", ("look",))
    usual = Renderer(byte_renderer.path, style=style, template=f"alfworld_{style}")
    chosen = Renderer(byte_renderer.path, style=style, template=f"alfworld_{style}", place=place)
    prompt = chosen.prompt(TASK, [], observed)
    assert prompt.ids == usual.prompt(TASK, [], observed).ids  # bytes: no token spans the cut
    head, tail = (chosen.decode(prompt.ids[part]) for part in (slice(prompt.hint_at), slice(prompt.hint_at, None)))
    assert head.endswith(before)
    assert tail.startswith(after)
    assert (head == "", tail == "") == (place == "before_chat_template", place == "assistant_prefix")
    turn = turn_after(chosen, prompt, [*chosen.tokenize("<action>look</action>"), chosen.turn_end[0]])
    following = chosen.prompt(TASK, [turn], observed)
    if style == "append":
        assert following.hint_at == prompt.hint_at
    else:
        assert chosen.decode(following.ids[: following.hint_at]).endswith(before)


def test_an_unknown_place_is_refused(toy_tokenizer):
    with pytest.raises(ConfigError, match=r"place must be one of before_instructions, .* got 'top'"):
        Renderer(toy_tokenizer, style="append", template="household_plain", place="top")


@given(thought=st.text(max_size=10), action=st.text(alphabet="go to \u00e9\u6f22\U0001f642", min_size=1, max_size=10))
@settings(max_examples=60, deadline=None)
def test_spans_of_a_byte_level_tokenizer_decode_to_the_action(byte_renderer, thought, action):
    ids = [*byte_renderer.tokenize(f"<think>{thought}</think><action>{action}</action>"), byte_renderer.turn_end[0]]
    parsed = parse_tags(byte_renderer.text(ids))
    assume(parsed is not None)  # an action of blanks alone is none
    start, stop = byte_renderer.spans(ids, parsed)["action"]
    assert byte_renderer.decode(ids[start:stop]).lower() == parsed.action
