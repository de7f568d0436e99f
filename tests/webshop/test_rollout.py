"""Both experts play made-up goals through renderer and collector in every prompt style."""

import pytest
from hydra import compose, initialize_config_module
from hydra.utils import instantiate

from sharpo.engine.expert import ExpertEngine
from sharpo.rollout.collector import Collector
from sharpo.rollout.env_pool import InlineEnvPool

PROMPTS = ("webshop_windowed", "webshop_benchmark", "webshop_append")
LIST = "The actions you can take now are: "


def play(bytes_tokenizer, shop, prompt, informed, *more):
    """Let an expert play eight validation goals."""
    with initialize_config_module("sharpo.configs", version_base="1.3"):
        config = compose(overrides=["+env=webshop", f"+prompt={prompt}", "+place=before_instructions", *more])
    make = instantiate(config.env, catalogue=str(shop), _partial_=True)
    renderer = instantiate(config.prompt, tokenizer_path=bytes_tokenizer)
    game = make()
    engine = ExpertEngine(encode=renderer.action_ids, informed=informed)
    collector = Collector(engine, InlineEnvPool(make), renderer, game.parse)
    said = {"seed": 0, "version": engine.version, "temperature": 0.0, "hinted_members": frozenset()}
    found = collector.collect([game.task("val", index) for index in range(8)], 1, **said)
    return renderer, [episode for group in found.groups for episode in group]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_exact_purchase_wins_in_every_style(bytes_tokenizer, made_up_shop, prompt):
    renderer, episodes = play(bytes_tokenizer, made_up_shop, prompt, True)
    assert len(episodes) == 8
    for episode in episodes:
        assert (episode.outcome.success, episode.outcome.score, episode.episode_return) == (True, 1.0, 10.0)
        assert [turn.reward for turn in episode.turns] == [0.0] * (len(episode.turns) - 1) + [10.0]
        for number, turn in enumerate(episode.turns):
            start, stop = turn.spans["action"]
            assert renderer.decode(turn.action_ids[start:stop]) == turn.action
            shown = renderer.decode(turn.prompt_ids)
            assert episode.task.instruction in shown
            wanted = "'search[<your query>]'" if turn.action.startswith("search[") else f"'{turn.action}'"
            assert wanted in shown.rpartition(LIST)[2]
            grows = number > 0 and turn.prompt_ids[: len(episode.turns[0].prompt_ids)] == episode.turns[0].prompt_ids
            assert grows == (prompt == "webshop_append" and number > 0)


def test_a_windowed_message_holds_the_last_two_pairs_or_none_when_it_would_be_too_long(bytes_tokenizer, made_up_shop):
    _, episodes = play(bytes_tokenizer, made_up_shop, "webshop_windowed", True)
    episode = max(episodes, key=lambda one: len(one.turns))
    assert len(episode.turns) >= 4
    renderer, short = play(bytes_tokenizer, made_up_shop, "webshop_windowed", True, "prompt.most_chars=900")
    cut = next(one for one in short if one.task == episode.task)
    for number, (turn, other) in enumerate(zip(episode.turns, cut.turns, strict=True)):
        shown, alone = renderer.decode(turn.prompt_ids), renderer.decode(other.prompt_ids)
        for back, earlier in enumerate(reversed(episode.turns[:number]), 1):
            pair = f"saw: '{earlier.observation}' did: '{earlier.action}'"
            assert (pair in shown) == (back <= 2)
            assert pair not in alone
        assert turn.action == other.action


def test_the_first_hit_buys_and_its_score_is_kept_beside_the_reward(bytes_tokenizer, made_up_shop):
    _, episodes = play(bytes_tokenizer, made_up_shop, "webshop_windowed", False)
    assert all([turn.action[:6] for turn in one.turns] == ["search", "click[", "click["] for one in episodes)
    scores = [one.outcome.score for one in episodes]
    assert any(0 < score < 1 for score in scores)
    for one in episodes:
        assert one.episode_return == (10.0 if one.outcome.score == 1.0 else 0.0)
        assert one.outcome.success == (one.outcome.score == 1.0)


def test_an_action_of_no_form_is_guessed_and_penalised_by_the_benchmarks_protocol(made_up_shop):
    with initialize_config_module("sharpo.configs", version_base="1.3"):
        config = compose(overrides=["+env=webshop", "+prompt=webshop_benchmark"])
    env = instantiate(config.env, catalogue=str(made_up_shop), invalid_penalty=0.1)
    for text, action, penalty in (
        ("<think>x</think><action> Click[Buy Now] </action>", "click[buy now]", 0.0),
        ("<action>click[buy now]</action>", "click[buy now]", 0.1),  # no thought
        ("<think>\u4e2d</think><action>search[lamp]</action>", "search[lamp]", 0.1),  # a Chinese character
        ("I would rather search[a red lamp]", "r search[a red lamp]"[-20:], 0.1),  # the last 20 characters
    ):
        found = env.parse(text)
        assert (found.action, found.penalty) == (action, penalty)
