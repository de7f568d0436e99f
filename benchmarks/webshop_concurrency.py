"""1,024 WebShop episodes alive in one process: memory of a session, steps per CPU second; memory of more processes.

python benchmarks/webshop_concurrency.py [--catalogue FOLDER] [--live 1024] [--turns 10] [--workers 1 2 4]

Without ``--catalogue`` 3,000 made-up products are built first. Play is random: a search of words of the instruction
where there is a bar, else something that the page offers; an episode that ends begins anew with another goal.
"""

from __future__ import annotations

import argparse
import gc
import random
import tempfile
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sharpo.envs.webshop import WebShop, build, demo
from sharpo.envs.webshop.env import ASK

MEMORY = ("Rss", "Pss", "Anonymous")


class Play:
    """Many episodes, stepped in turn.

    Args:
        catalogue: folder.
        live: episodes at a time.
        seed: of the play.
    """

    def __init__(self, catalogue: str, live: int, seed: int = 0) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        self.envs = [WebShop(catalogue=catalogue) for _ in range(live)]
        self.tasks = self.envs[0].num_tasks("train")
        self.offers: list[tuple[str, ...]] = [self.begin(env) for env in self.envs]
        self.ended = 0

    def begin(self, env: WebShop) -> tuple[str, ...]:
        """Begin a random goal and return what can be done."""
        task = env.task("train", self.rng.randrange(self.tasks))
        return env.reset(options={"task": task, "informed_oracle": None})[1]["admissible"]

    def turn(self) -> None:
        """Step every episode once."""
        for place, env in enumerate(self.envs):
            action = self.rng.choice(self.offers[place])
            if action == ASK or action == "click[search]":
                assert env.current_task is not None
                words = env.current_task.instruction.split()
                action = f"search[{' '.join(self.rng.sample(words, min(4, len(words))))}]"
            _, _, done, truncated, info = env.step(action)
            self.ended += done or truncated
            self.offers[place] = self.begin(env) if done or truncated else info["admissible"]


def held(catalogue: str, live: int, turns: int) -> float:
    """Return what one live episode holds in bytes, as Python's allocator counts it: what their deletion frees."""
    Play(catalogue, 8).turn()  # whatever is imported and opened, is now
    tracemalloc.start()
    play = Play(catalogue, live)
    for _ in range(turns):
        play.turn()
    play.offers.clear()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    play.envs.clear()
    gc.collect()
    freed = before - tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return freed / live


def speed(catalogue: str, live: int, turns: int) -> dict[str, float]:
    """Return the CPU seconds and counts of one process's play, resets included."""
    clock = time.process_time()
    play = Play(catalogue, live)
    begun = time.process_time() - clock
    clock = time.process_time()
    for _ in range(turns):
        play.turn()
    spent = time.process_time() - clock
    return {"begun": begun, "steps": live * turns, "spent": spent, "ended": play.ended, **memory()}


def memory() -> dict[str, float]:
    """Return this process's memory in MB: all of it, its share, and what no file holds."""
    found = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in MEMORY:
            found[name] = int(rest.split()[0]) * 1024 / 1e6
    return found


def worker(catalogue: str, live: int, turns: int, barrier: Any, answers: Any) -> None:
    """Play, wait for the others, and tell the memory while all are alive."""
    Play(catalogue, live).turn()
    play = Play(catalogue, live)
    for _ in range(turns):
        play.turn()
    gc.collect()
    barrier.wait()
    answers.put(memory())
    barrier.wait()


def together(catalogue: str, live: int, turns: int, count: int) -> dict[str, float]:
    """Return the memory of so many processes that play at once, summed."""
    context = get_context("spawn")
    barrier, answers = context.Barrier(count), context.Queue()
    started = [
        context.Process(target=worker, args=(catalogue, live // count, turns, barrier, answers)) for _ in range(count)
    ]
    for process in started:
        process.start()
    found = [answers.get(timeout=600) for _ in started]
    for process in started:
        process.join()
    return {name: sum(one[name] for one in found) for name in MEMORY}


def alone(task: Any) -> Any:
    """Run something in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(task).result()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--catalogue", default=None, help="folder of a built catalogue")
    parser.add_argument("--live", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="webshop_concurrency_") as made:
        folder = given.catalogue
        if folder is None:
            folder = str(build.build(demo.source(3000), Path(made) / "catalogue", "words").folder)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6
        print(f"catalogue of {size:.0f} MB on disk; {given.live} live episodes, {given.turns} turns each")
        session = alone(partial(held, folder, given.live, given.turns))
        print(f"memory: {session / 1e3:.2f} kB an episode")
        one = alone(partial(speed, folder, given.live, given.turns))
        print(
            f"{one['steps']:,.0f} steps with {one['ended']:,.0f} ends and new beginnings in {one['spent']:.2f} CPU s: "
            f"{one['steps'] / one['spent']:,.0f} steps per CPU s; {given.live} beginnings in {one['begun']:.2f} CPU s; "
            f"the process has {one['Rss']:.0f} MB in memory, {one['Anonymous']:.0f} MB of them its own"
        )
        for count in given.workers:
            found = together(folder, given.live, given.turns, count)
            print(
                f"{count} process{'es' if count > 1 else ''} with {given.live // count} episodes each: together "
                f"{found['Pss']:.0f} MB, {found['Anonymous']:.0f} MB in no file; {found['Rss']:.0f} MB if nothing "
                "were shared",
                flush=True,
            )


if __name__ == "__main__":
    main()
