"""A pool that steps environments in process, with planted delays and failures, and shortcuts to play toy episodes."""

from __future__ import annotations

import time

import pytest
from toy_env import ToyEnv

from sharpo.engine.expert import ExpertEngine
from sharpo.env import Observed
from sharpo.protocols import EnvEvent
from sharpo.rollout.collector import WAIT_S, Collector


class FakePool:
    """Answers at once, or ``delay[slot]`` polls later; ``fail(task, turn)`` returns a failure reason or None.

    ``turn`` is -1 at a reset. ``log`` keeps (slot, turn) in the order of the answers.
    """

    def __init__(self, make_env=ToyEnv, delay=None, fail=lambda task, turn: None):
        self.make_env, self.delay, self.fail = make_env, delay or {}, fail
        self.envs, self.turns, self.due = {}, {}, []
        self.clock, self.running, self.most, self.log, self.informed = 0, set(), 0, [], []

    def reset(self, slot, task, *, informed_oracle=False):
        self.running.add(slot)
        self.most = max(self.most, len(self.running))
        self.informed.append(informed_oracle)
        env = self.envs[slot] = self.make_env()
        self.turns[slot] = -1
        text, info = env.reset(options={"task": task, "informed_oracle": informed_oracle})
        self._answer(slot, task, EnvEvent(slot, Observed(text, info["admissible"], info["oracle"])))

    def step(self, slot, action):
        env = self.envs[slot]
        text, reward, terminated, truncated, info = env.step(action)
        self.turns[slot] += 1
        observed = Observed(text, info["admissible"], info["oracle"])
        self._answer(
            slot,
            env.current_task,
            EnvEvent(slot, observed, reward, info["penalty"], terminated, truncated, env.outcome()),
        )

    def _answer(self, slot, task, event):
        reason = self.fail(task, self.turns[slot])
        if reason:
            event = EnvEvent(slot, Observed(""), failure=reason, message="planted")
        self.due.append((self.clock + self.delay.get(slot, 0), event))

    def poll(self, timeout_s):
        self.clock += 1
        ready = [event for at, event in self.due if at < self.clock]
        self.due = [(at, event) for at, event in self.due if at >= self.clock]
        self.log += [(event.slot, self.turns[event.slot]) for event in ready]
        if not ready and timeout_s < WAIT_S:
            time.sleep(timeout_s)  # a short wait is over; a long one is for what is due at a later poll
        return ready

    def release(self, slot):
        self.running.discard(slot)

    def close(self):
        self.envs.clear()


@pytest.fixture
def fake_pool():
    return FakePool


@pytest.fixture
def play(toy_renderer):
    """Play toy tasks: ``play(tasks=.., members=.., engine=.., pool=.., renderer=.., budgets=..)`` -> CollectResult."""

    def run(tasks=4, members=2, engine=None, pool=None, renderer=None, budgets=None, env=None, version=0, **more):
        env = env or ToyEnv()
        renderer = renderer or toy_renderer
        engine = engine or ExpertEngine(noise=0.3)
        engine.attach(renderer.action_ids)
        engine.load_weights(version, [])
        chosen = [env.task("train", i) for i in range(tasks)] if isinstance(tasks, int) else tasks
        collector = Collector(
            engine, pool or FakePool(lambda: ToyEnv(env.max_turns, env.action_format)), renderer, env.parse, budgets
        )
        return collector.collect(chosen, members, **{"seed": 1, "version": version, "temperature": 1.0, **more})

    return run
