"""Episodes to measure on: noisy expert play, without a policy."""

from __future__ import annotations

from typing import Any

from sharpo.engine.expert import ExpertEngine
from sharpo.episode import EpisodeGroup
from sharpo.rollout.collector import Collector


def noisy_groups(data: Any) -> list[EpisodeGroup]:
    """Return noisy expert play of a data module's tasks: successes and failures, as a policy's own would be."""
    engine = ExpertEngine(noise=0.3, encode=data.renderer.action_ids)
    engine.version = 0
    pool = data.make_pool(data.make_env)
    tasks = [data.env.task("train", index) for index in range(data.sizes.groups)]
    collector = Collector(engine, pool, data.renderer, data.env.parse, data.budgets)
    played = collector.collect(tasks, data.sizes.group_size, seed=0, version=0, temperature=1.0)
    pool.close()
    return [EpisodeGroup(episodes[0].task, tuple(episodes)) for episodes in played.groups]
