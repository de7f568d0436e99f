"""The expert plays the sample through renderer and collector, with a tokenizer of bytes, in both prompt styles."""

import pytest
from hydra import compose, initialize_config_module
from hydra.utils import instantiate

from sharpo.engine.expert import ExpertEngine
from sharpo.rollout.collate import rows_of
from sharpo.rollout.collector import Collector
from sharpo.rollout.env_pool import InlineEnvPool


def play(bytes_tokenizer, env, prompt, *more):
    """Let the expert answer the validation questions, two members each, the second one informed too."""
    with initialize_config_module("sharpo.configs", version_base="1.3"):
        config = compose(overrides=[f"+env={env}", f"+prompt={prompt}", "+place=before_instructions", *more])
    make = instantiate(config.env, _partial_=True)
    renderer = instantiate(config.prompt, tokenizer_path=bytes_tokenizer)
    game = make()
    tasks = [game.task("val", index) for index in range(game.num_tasks("val"))]
    engine = ExpertEngine(encode=renderer.action_ids)
    collector = Collector(engine, InlineEnvPool(make), renderer, game.parse)
    said = {"seed": 0, "version": engine.version, "temperature": 0.0, "hinted_members": frozenset({0, 1})}
    return renderer, collector.collect(tasks, 2, **said)


@pytest.mark.parametrize(
    ("env", "prompt"),
    [
        ("searchqa", "searchqa_windowed"),
        ("searchqa", "searchqa_benchmark"),
        ("searchqa_growing", "searchqa_append"),
    ],
)
def test_the_expert_answers_the_sample(bytes_tokenizer, env, prompt):
    renderer, found = play(bytes_tokenizer, env, prompt)
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


def test_passages_are_cut_by_tokens_and_a_long_context_loses_its_beginning(bytes_tokenizer):
    with_limits = "prompt.observation_tokens=150", "prompt.most_tokens=700"
    renderer, found = play(bytes_tokenizer, "searchqa_growing", "searchqa_append", *with_limits)
    _, free = play(bytes_tokenizer, "searchqa_growing", "searchqa_append", "prompt.observation_tokens=100000")
    assert (free.stats.cut_observations, free.stats.cut_prompts) == (0, 0)
    assert found.stats.cut_observations == 28  # every search
    assert found.stats.cut_prompts == found.stats.metrics()["cut_prompts"] == 28  # with what came back
    pairs = [(one, two) for a, b in zip(found.groups, free.groups, strict=True) for one, two in zip(a, b, strict=True)]
    for cut, whole in pairs:
        assert cut.outcome.success
        first, second = cut.turns
        seen = whole.turns[0].next_observation
        assert first.next_observation == second.observation == renderer.decode(renderer.tokenize(seen)[:150])
        assert first.prompt_ids == whole.turns[0].prompt_ids
        assert len(second.prompt_ids) == 700
        said, after = (renderer.decode(ids) for ids in ((*first.prompt_ids, *first.action_ids), second.prompt_ids))
        kept = after[: after.index(first.text) + len(f"{first.text}<|end|>")]
        assert said.endswith(kept)
        assert len(kept) < len(said)
        assert len(rows_of(cut, 0, "action")) == 2  # the second prompt no longer extends the first
        assert len(rows_of(whole, 0, "action")) == 1
