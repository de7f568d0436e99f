"""Household games and ALFWorld's: what loading, resets and steps cost, natively and on TextWorld; memory; scaling.

Run: ``python benchmarks/env_speed.py [--alfworld FOLDER] [--games 14] [--stock 4] [--experts SPLIT ...]``. Costs are
CPU seconds of this process; without ``--alfworld`` the generated games of ``household`` are measured.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

from sharpo.envs import textgames
from sharpo.envs.alfworld import AlfWorld
from sharpo.envs.household import Household
from sharpo.envs.native import cache
from sharpo.envs.textgames import TextGameEnv

TURNS, MEMBERS, TASKS = 50, 8, 16
LIVE = 1024
Make = Callable[[str], TextGameEnv]


def household(engine: str) -> TextGameEnv:
    """Return the generated games of a middle size."""
    return Household(receptacles=12, objects=12, max_turns=TURNS, engine=engine)  # type: ignore[arg-type]


def alfworld(data: str, engine: str) -> TextGameEnv:
    """Return ALFWorld's own games."""
    return AlfWorld(data=data, max_turns=TURNS, engine=engine)  # type: ignore[arg-type]


def walk(env: TextGameEnv, task: Any, seed: int, oracle: bool | None = None) -> tuple[float, list[float]]:
    """Play at random to the end: CPU seconds of the reset and of every step."""
    rng = random.Random(seed)  # noqa: S311
    clock = time.thread_time()
    _, info = env.reset(options={"task": task, "informed_oracle": oracle})
    begun, steps, over = time.thread_time() - clock, [], False
    while not over:
        action = rng.choice(info["admissible"])
        clock = time.thread_time()
        _, _, done, truncated, info = env.step(action)
        steps.append(time.thread_time() - clock)
        over = done or truncated
    return begun, steps


def line(name: str, load: Sequence[float], reset: Sequence[float], step: Sequence[float]) -> None:
    """Print one engine's costs and rates."""
    load_s, reset_s, step_s = (statistics.mean(x) for x in (load, reset, step))
    print(
        f"{name}: load {load_s:.3f} s (max {max(load):.2f}), reset {1e3 * reset_s:.3f} ms = {1 / reset_s:,.0f}/s, "
        f"step {1e3 * step_s:.3f} ms = {1 / step_s:,.0f}/s",
        flush=True,
    )


def engines(make: Make, tasks: list[Any], stock_games: int) -> None:
    """Print what each engine needs for the same random play of the same games."""
    for engine in ("native", "textworld"):
        env = make(engine)
        if engine == "native":
            for task in tasks:
                walk(env, task, 0)  # compiled before anything is timed
        load, reset, step = [], [], []
        for task in tasks:
            textgames._loaded.clear()
            for member in range(3):
                begun, steps = walk(env, task, member)
                (load if member == 0 else reset).append(begun)
                step += steps
        line("native" if engine == "native" else "TextWorld, cached", load, reset, step)
        if engine == "native":
            asked = [x for task in tasks for x in walk(env, task, 0, oracle=False)[1]]
            print(f"native with the exploring oracle: step {1e3 * statistics.mean(asked):.3f} ms")
    if stock_games:
        line("TextWorld, stock", *stock(make("native"), tasks[:: max(1, len(tasks) // stock_games)]))


def stock(env: TextGameEnv, tasks: list[Any]) -> tuple[list[float], list[float], list[float]]:
    """Return what stock TextWorld needs."""
    import textworld
    from textworld.envs import PddlEnv

    load, reset, step = [], [], []
    game = PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True))
    for task in tasks:
        marks = [time.thread_time()]
        game.load(env._game_data(task))
        marks.append(time.thread_time())
        state = game.reset()
        marks.append(time.thread_time())
        load.append(marks[1] - marks[0])
        reset.append(marks[2] - marks[1])
        rng = random.Random(0)  # noqa: S311
        for _ in range(15):
            clock = time.thread_time()
            state, _, _ = game.step(rng.choice(state["admissible_commands"]))
            step.append(time.thread_time() - clock)
    return load, reset, step


def rollout(make: Make, tasks: list[Any]) -> None:
    """Print what one worker needs for the environments of one iteration: 16 x 8 episodes of 50 turns."""
    textgames._loaded.clear()
    env, clock = make("native"), time.thread_time()
    steps = sum(
        len(walk(env, tasks[number % len(tasks)], member)[1]) for number in range(TASKS) for member in range(MEMBERS)
    )
    print(f"{TASKS * MEMBERS} episodes, {steps} steps, loading included: {time.thread_time() - clock:.2f} CPU seconds")


def memory(make: Make, tasks: list[Any]) -> str:
    """Return what games and many live episodes hold, as Python's allocator counts it; in a process of its own."""
    make("native").reset(options={"task": tasks[0], "informed_oracle": None})  # whatever is imported, is now
    textgames._loaded.clear()
    tracemalloc.start()
    games, env = [], make("native")
    for task in tasks:
        env.reset(options={"task": task, "informed_oracle": None})
        games.append(env._floor)
    gc.collect()
    loaded = tracemalloc.get_traced_memory()[0]
    live = [make("native") for _ in range(LIVE)]
    rng = random.Random(0)  # noqa: S311
    for number, one in enumerate(live):
        one.reset(options={"task": tasks[number % len(tasks)], "informed_oracle": None})
        for _ in range(10):
            one.step(rng.choice(one._observed.admissible))
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - loaded
    return (
        f"memory: {loaded / len(games) / 1e6:.2f} MB a game ({len(games)} games), {LIVE} live episodes after 10 turns "
        f"{held / 1e6:.0f} MB = {held / LIVE / 1e3:.0f} kB each"
    )


def moments(make: Make, task: Any) -> None:
    """Print what keeping a moment and going back to it cost."""
    env, times = make("native"), 10_000
    env.reset(options={"task": task, "informed_oracle": None})
    clock, kept = time.thread_time(), env.snapshot()
    for _ in range(times):
        kept = env.snapshot()
    there = time.thread_time()
    for _ in range(times):
        env.restore(kept)
    print(
        f"snapshot {1e6 * (there - clock) / times:.1f} microseconds, "
        f"restore {1e6 * (time.thread_time() - there) / times:.1f} microseconds"
    )


def share(make: Make, tasks: list[Any], seed: int) -> int:
    """Play every game once at random; return the steps."""
    env = make("native")
    return sum(len(walk(env, task, seed)[1]) for task in tasks)


def scaling(make: Make, tasks: list[Any]) -> None:
    """Print steps per second of the wall clock with threads and with processes."""
    for kind in ("threads", "processes"):
        rates = []
        for workers in (1, 2, 4):
            pool = (
                ThreadPoolExecutor(workers)
                if kind == "threads"
                else ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
            )
            with pool:
                list(pool.map(partial(share, make, tasks), range(2 * workers)))  # every worker has its games
                clock = time.perf_counter()
                steps = sum(pool.map(partial(share, make, tasks), range(8)))
                rates.append(f"{workers}: {steps / (time.perf_counter() - clock):,.0f}")
        print(f"steps per second with {kind} {', '.join(rates)}")


def experts(env: TextGameEnv, split: str, tasks: list[Any]) -> None:
    """Print how often the informed and the exploring expert win within the turn limit, with mean turns by family."""
    for informed in (True, False):
        won, turns, count, most = Counter[str](), Counter[str](), Counter[str](), 0
        for task in tasks:
            _, info = env.reset(options={"task": task, "informed_oracle": informed})
            done = truncated = False
            while not (done or truncated):
                _, _, done, truncated, info = env.step(info["oracle"])
            won[task.family] += done
            turns[task.family] += env._turns
            count[task.family] += 1
            most = max(most, env._turns)
        by = ", ".join(f"{f} {won[f]}/{count[f]} in {turns[f] / count[f]:.1f}" for f in env.families if count[f])
        kind = "informed" if informed else "exploring"
        mean = turns.total() / count.total()
        print(f"{split}, {kind} expert: {won.total()}/{count.total()}, {mean:.1f} turns, at most {most}: {by}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alfworld", help="folder of real games; else generated ones")
    parser.add_argument("--games", type=int, default=14, help="games of the validation split, evenly spread")
    parser.add_argument("--stock", type=int, default=0, help="games that stock TextWorld plays too")
    parser.add_argument("--experts", nargs="*", default=[], metavar="SPLIT", help="win rates over these splits alone")
    parser.add_argument("--compiled", action="store_true", help="win rates over games that are compiled already")
    parser.add_argument("--open-first", action="store_true", help="the exploring expert of env.open_first")
    parser.add_argument("--train-games", type=int, help="win rates: env.train_games of the train split")
    given = parser.parse_args()
    make: Make = partial(alfworld, given.alfworld) if given.alfworld else household
    env = make("native")
    if isinstance(env, AlfWorld):
        env.open_first, env.train_games = given.open_first, given.train_games
    for split in given.experts:
        chosen = range(env.num_tasks(split) or 300)
        if given.compiled and isinstance(env, AlfWorld):
            names = env._games(env._folder(split))
            chosen = [i for i in chosen if cache.is_compiled(env._bytes(f"{split}/{names[i]}"))]
        experts(env, split, [env.task(split, index) for index in chosen])
    if given.experts:
        return
    known = env.num_tasks("val") or given.games
    tasks = [env.task("val", index * known // given.games) for index in range(given.games)]
    engines(make, tasks, given.stock)
    rollout(make, tasks)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        print(alone.submit(memory, make, tasks).result())
    moments(make, tasks[0])
    scaling(make, tasks)


if __name__ == "__main__":
    main()
