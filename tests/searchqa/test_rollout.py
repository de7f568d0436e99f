"""The expert plays the sample through renderer and collector, with a tokenizer of bytes, in both prompt styles."""

import pytest
from hydra import compose, initialize_config_module
from hydra.utils import instantiate
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sharpo.engine.expert import ExpertEngine
from sharpo.rollout.collector import Collector
from sharpo.rollout.env_pool import InlineEnvPool

CHAT = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def bytes_tokenizer(tmp_path_factory):
    """A tokenizer of single bytes with an append-only chat template."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<|end|>", "<|start|>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|start|>"]})
    fast.chat_template = CHAT
    folder = tmp_path_factory.mktemp("bytes")
    fast.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("env", "prompt"),
    [
        ("searchqa", "searchqa_windowed"),
        ("searchqa", "searchqa_benchmark"),
        ("searchqa_growing", "searchqa_append"),
    ],
)
def test_the_expert_answers_the_sample(bytes_tokenizer, env, prompt):
    with initialize_config_module("sharpo.configs", version_base="1.3"):
        config = compose(overrides=[f"+env={env}", f"+prompt={prompt}", "+place=before_instructions"])
    make = instantiate(config.env, _partial_=True)
    renderer = instantiate(config.prompt, tokenizer_path=bytes_tokenizer)
    game = make()
    tasks = [game.task("val", index) for index in range(game.num_tasks("val"))]
    engine = ExpertEngine(encode=renderer.action_ids)
    collector = Collector(engine, InlineEnvPool(make), renderer, game.parse)
    hinted = frozenset({0, 1})
    found = collector.collect(tasks, 2, seed=0, version=engine.version, temperature=0.0, hinted_members=hinted)
    episodes = [episode for group in found.groups for episode in group]
    assert len(episodes) == 28
    assert all(episode.outcome.success and episode.episode_return == 1.0 for episode in episodes)
    for episode in episodes:
        first, second = episode.turns
        assert first.text == f"<think></think>{first.action}"
        start, stop = first.spans["action_with_tags"]
        assert renderer.decode(first.action_ids[start:stop]) == first.action
        assert not any(answer in renderer.decode(first.prompt_ids) for answer in episode.task.payload["answers"][:1]
                       if answer.lower() not in episode.task.instruction.lower() and len(answer) > 3)  # fmt: skip
        shown = renderer.decode(second.prompt_ids)
        assert episode.task.instruction in shown
        assert "<information>" in shown
        grows = second.prompt_ids[: len(first.prompt_ids)] == first.prompt_ids
        assert grows == (prompt == "searchqa_append")
