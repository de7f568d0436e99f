"""The from-scratch model: a tokenizer of phrases that gives actions back, a chat template, a folder built once."""

from __future__ import annotations

import pytest
import torch

from sharpo.errors import ConfigError
from sharpo.policy.tiny import TinyModel, compose_phrases


@pytest.fixture(scope="module")
def built(tmp_path_factory, lexicon):
    return TinyModel(str(tmp_path_factory.mktemp("tiny"))).prepare(lambda: lexicon)


@pytest.fixture(scope="module")
def tokenizer(built):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(built)


@pytest.mark.parametrize("text", ["go to cabinet 1", "go to cabinet 12", "take mug 1 from desk 2", "nothing, a."])
def test_actions_come_back_from_their_tokens(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids) == text


def test_the_longest_phrase_wins_and_stops_at_word_boundaries(tokenizer):
    ids = tokenizer.encode("You arrive at  Cabinet 12.\nYou see nothing, mug 1", add_special_tokens=False)
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert tokens == ["you arrive at", "cabinet 12", ".", "you see", "nothing", ",", "mug 1"]
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("cabinet 123", add_special_tokens=False)) == [
        "cabinet", "<|unk|>",
    ]  # fmt: skip


def test_tags_are_tokens(tokenizer):
    ids = tokenizer.encode("<action>go to desk 2</action>", add_special_tokens=False)
    assert tokenizer.convert_ids_to_tokens(ids) == ["<action>", "go to", "desk 2", "</action>"]


def test_chat_template(tokenizer):
    chat = [
        {"role": "user", "content": "you see desk 2"},
        {"role": "assistant", "content": "go to desk 2"},
        {"role": "user", "content": "nothing"},
    ]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert text == "<|obs|>you see desk 2<|act|>go to desk 2<|end|><|obs|>nothing<|act|>"
    tokens = tokenizer.convert_ids_to_tokens(tokenizer.encode(text, add_special_tokens=False))
    assert tokens[:4] == ["<|obs|>", "you see", "desk 2", "<|act|>"]
    assert tokenizer.eos_token == "<|end|>"
    assert tokenizer.pad_token == "<|pad|>"


def test_built_once_for_the_same_words_and_shape(built, lexicon):
    from pathlib import Path

    parent = Path(built).parent
    before = (Path(built) / "model.safetensors").stat().st_mtime_ns
    assert TinyModel(str(parent)).prepare(lambda: list(reversed(lexicon))) == built
    assert (Path(built) / "model.safetensors").stat().st_mtime_ns == before
    assert TinyModel(str(parent), seed=1).prepare(lambda: lexicon) != built
    assert TinyModel(str(parent)).prepare(lambda: [*lexicon, "fridge"]) != built
    assert not list(parent.glob(".tiny-*"))


def test_refuses_a_head_that_the_engine_cannot_run(tmp_path):
    with pytest.raises(ConfigError, match="width / heads"):
        TinyModel(str(tmp_path), width=100, heads=4)


def test_a_phrase_begins_near_its_words_and_keeps_its_variance():
    generator = torch.Generator().manual_seed(0)
    words = {"mug": 0, "1": 1, "cabinet": 2, "mug 1": 3, "cabinet 1": 4, "<|act|>": 5}
    before = torch.randn(6, 4096, generator=generator)
    after = before.clone()
    compose_phrases(after, words, share=0.75)
    assert torch.equal(after[:3], before[:3])
    assert torch.equal(after[5], before[5])
    cosine = torch.nn.functional.cosine_similarity
    assert cosine(after[3], after[0], dim=0) == pytest.approx((0.75 / 2) ** 0.5, abs=0.05)
    assert abs(float(cosine(after[3], after[2], dim=0))) < 0.05
    assert float(after[3:5].var()) == pytest.approx(1.0, abs=0.05)
