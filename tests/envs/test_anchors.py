"""What GiGPO, GraphGPO and SCPO read of a Turn is there on a real game, and means what they take it to mean."""

import pytest
import torch
from sharpo.envs.alfworld import AlfWorld

from sharpo.algorithms.gigpo import Gigpo, anchor, next_anchor
from sharpo.algorithms.graph_gpo import GraphGpo
from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.algorithms.scpo import Scpo
from sharpo.engine.expert import ExpertEngine
from sharpo.episode import EpisodeGroup
from sharpo.policy.tiny import TinyModel
from sharpo.rollout.collector import Collector
from sharpo.rollout.env_pool import InlineEnvPool
from sharpo.rollout.render import Renderer

PLAIN = PolicyLoss()


@pytest.fixture(scope="module")
def group(alfworld_games, tmp_path_factory):
    """Four noisy plays of one real game, some of them won."""

    def make():
        return AlfWorld(data=str(alfworld_games), action_format="plain", max_turns=14)

    env = make()
    path = TinyModel(str(tmp_path_factory.mktemp("tiny"))).prepare(env.lexicon)
    renderer = Renderer(path, style="append", template="household_plain", action_format="plain")
    engine = ExpertEngine(noise=0.6, encode=renderer.action_ids)
    engine.load_weights(0, [])
    task = next(task for task in (env.task("val", index) for index in range(5)) if task.family == "pick")
    collector = Collector(engine, InlineEnvPool(make), renderer, env.parse)
    result = collector.collect([task], 4, seed=3, version=0, temperature=1.0, hinted_members=frozenset(range(4)))
    return EpisodeGroup(task, tuple(result.groups[0]))


def test_every_turn_has_its_anchor_the_next_one_and_its_reward(group):
    won = [episode.outcome.success for episode in group.episodes]
    assert any(won)
    assert not all(won)
    for episode in group.episodes:
        for turn, following in zip(episode.turns, episode.turns[1:], strict=False):
            assert next_anchor(turn) == anchor(following)
            assert (turn.reward, turn.invalid) == (0.0, False)
        assert episode.turns[-1].reward == (10.0 if episode.outcome.success else 0.0)
        assert "Your task is to" in anchor(episode.turns[0])
    assert len({anchor(episode.turns[0]) for episode in group.episodes}) == 1


def test_step_methods_find_shared_states_in_a_real_game(group):
    turns = sum(len(episode.turns) for episode in group.episodes)
    report = Gigpo(policy_loss=PLAIN).group_report(group)
    assert report["singleton_share"] < 1.0
    assert report["anchor_turns"] > 1.0
    plain = Gigpo(policy_loss=PLAIN, omega=0.0).base_advantages(group)
    for method in (Gigpo, GraphGpo, Scpo):
        advantages = method(policy_loss=PLAIN).base_advantages(group)
        assert advantages.shape == (turns,)
        assert torch.isfinite(advantages).all()
        assert not torch.equal(advantages, plain)
