"""Continuous collection beside a lock-step loop on the same engine: tokens and decode steps, side by side.

Run: ``python benchmarks/rollout_efficiency.py [--groups N] [train.py overrides]``.

The lock-step loop is the one of the field's usual code: all episodes wait for the slowest answer of a turn, and
finished episodes go on asking for tokens that nobody reads, until the last one is done. Steps are counted in polls, so
they are decode steps with engine=vllm only.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor

from sharpo import cli
from sharpo.env import Observed
from sharpo.episode import Task, Turn
from sharpo.protocols import Completion, Request, TurnView
from sharpo.rollout.collector import Collector
from sharpo.rollout.stats import CollectStats
from sharpo.seeding import derive


class Counted:
    """An engine that counts its decode steps and tokens."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.steps, self.tokens = engine, 0, 0
        self.version, self.max_context, self.reports_logp = engine.version, engine.max_context, engine.reports_logp
        self.informed = engine.informed

    def submit(self, request: Request) -> None:
        """Pass on."""
        self.engine.submit(request)

    def poll(self) -> list[Completion]:
        """Count one step."""
        self.steps += 1
        done = self.engine.poll()
        self.tokens += sum(len(completion.token_ids) for completion in done)
        return done

    def load_weights(self, version: int, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Pass on."""
        self.engine.load_weights(version, named_tensors)
        self.version = self.engine.version

    def score(self, prompt_ids: Sequence[int], action_ids: Sequence[int], temperature: float) -> list[float]:
        """Pass on."""
        return self.engine.score(prompt_ids, action_ids, temperature)

    def close(self) -> None:
        """Pass on."""
        self.engine.close()


def lock_step(engine: Counted, pool: Any, data: Any, tasks: Sequence[Task], members: int) -> int:
    """Play all episodes with a barrier per turn and return the tokens that were needed."""
    plays = [(task, member) for task in tasks for member in range(members)]
    turns: list[list[Turn]] = [[] for _ in plays]
    observed = [Observed("") for _ in plays]
    finished = [False] * len(plays)
    for slot, (task, _) in enumerate(plays):
        pool.reset(slot, task)
    for event in _wait(pool, len(plays)):
        observed[event.slot] = event.observed
    needed = 0
    while not all(finished):
        prompts = [data.renderer.prompt(task, turns[i], observed[i]) for i, (task, _) in enumerate(plays)]
        for i, (task, member) in enumerate(plays):
            turn = len(turns[i])
            seed = derive(0, "rollout", 0, task.id, member, turn)
            view = TurnView(task, member, turn, observed[i])
            engine.submit(Request(i, prompts[i].ids, data.budgets.turn_tokens, 1.0, seed, data.renderer.turn_end, view))
        answers: dict[int, Completion] = {}
        while len(answers) < len(plays):
            answers |= {completion.id: completion for completion in engine.poll()}
        moving = [i for i in range(len(plays)) if not finished[i]]
        parsed = {i: data.env.parse(data.renderer.text(answers[i].token_ids)) for i in moving}
        for i in moving:
            needed += len(answers[i].token_ids)
            pool.step(i, None if parsed[i] is None else parsed[i].action)
        for event in _wait(pool, len(moving)):
            i, answer = event.slot, answers[event.slot]
            action = parsed[i]
            turns[i].append(
                Turn(
                    prompts[i].ids, answer.token_ids, answer.logp, data.renderer.text(answer.token_ids),
                    None if action is None else action.action, {}, observed[i].text, event.observed.text,
                    event.reward, event.penalty, answer.finish, prompts[i].hint_at,
                )
            )  # fmt: skip
            observed[i] = event.observed
            finished[i] = event.terminated or event.truncated or event.failure is not None
    return needed


def _wait(pool: Any, count: int) -> list[Any]:
    events: list[Any] = []
    while len(events) < count:
        events += pool.poll(0.5)
    return events


def measured(engine: Counted, play: Callable[[], Any]) -> tuple[Any, int, int, float, float]:
    """Return what ``play`` returns, and the tokens, decode steps, seconds and CPU seconds (workers aside) it took."""
    engine.steps = engine.tokens = 0
    begun, worked = time.perf_counter(), time.process_time()
    result = play()
    return result, engine.tokens, engine.steps, time.perf_counter() - begun, time.process_time() - worked


def main() -> None:
    """Play the same tasks both ways and print the ratios."""
    parser = argparse.ArgumentParser(description="Plays the same tasks continuously and in lock-step, prints ratios.")
    parser.add_argument("--groups", type=int, default=16, metavar="N", help="tasks (default: 16)")
    parser.add_argument("--members", type=int, default=8, metavar="N", help="episodes of each (default: 8)")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="as for train.py")
    arguments = parser.parse_intermixed_args()

    def run(cfg: Any) -> None:
        parts = cli.Parts(cfg)
        data, policy = parts.data(), parts.policy()
        engine = Counted(data.make_engine())
        engine.load_weights(0, policy.named_weights())
        pool = data.make_pool(data.make_env)
        tasks = [data.env.task("train", index) for index in range(arguments.groups)]
        collector = Collector(engine, pool, data.renderer, data.env.parse, data.budgets)

        def continuous() -> CollectStats:
            return collector.collect(tasks, arguments.members, seed=0, version=0, temperature=1.0).stats

        continuous()  # warms the engine and loads the games
        stats, *ours = measured(engine, continuous)
        needed, *theirs = measured(engine, lambda: lock_step(engine, pool, data, tasks, arguments.members))
        pool.close()
        engine.close()
        print(f"| {stats.episodes} episodes, {stats.tokens} tokens | continuous | lock-step | ratio |")
        print("|---|---|---|---|")
        print(f"| tokens generated ÷ tokens needed | {ours[0] / stats.tokens:.2f} | {theirs[0] / needed:.2f} | "
              f"{theirs[0] / needed / (ours[0] / stats.tokens):.2f} |")  # fmt: skip
        print(f"| decode steps | {ours[1]} | {theirs[1]} | {theirs[1] / ours[1]:.2f} |")
        print(f"| seconds | {ours[2]:.1f} | {theirs[2]:.1f} | {theirs[2] / ours[2]:.2f} |")
        print(f"| CPU seconds without the workers | {ours[3]:.1f} | {theirs[3]:.1f} | {theirs[3] / ours[3]:.2f} |")
        print(f"| share of the time in the engine | {stats.seconds_engine / stats.seconds_total:.2f} | | |")
        print(f"| success | {stats.successes / stats.episodes:.2f} | | |")

    sys.argv = [sys.argv[0], *arguments.overrides]
    cli.main(run)


if __name__ == "__main__":
    main()
