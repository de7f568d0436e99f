"""Cost of household games: load, missed and remembered steps, expert win rates, groups per second of one worker.

python benchmarks/env_speed.py [--games 300] [--alfworld FOLDER] [--stock]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import Counter
from typing import Any

from sharpo.envs import textgames
from sharpo.envs.alfworld import AlfWorld
from sharpo.envs.household import Household
from sharpo.envs.textgames import TextGameEnv
from sharpo.envs.tw_parts import require_textworld

TINY = ["Apple", "Bowl", "Book", "CellPhone", "CreditCard", "Cup", "Egg", "Mug", "Pen", "Plate", "Potato", "Tomato"]
MEMBERS = 8


def played(env: TextGameEnv, task: Any, informed: bool, rng: random.Random | None = None) -> tuple[bool, list[float]]:
    """Play the expert (or at random): the verdict and the CPU seconds of the reset and of every step."""
    clock = time.process_time()
    _, info = env.reset(options={"task": task, "informed_oracle": informed})
    spent = [time.process_time() - clock]
    done = truncated = False
    while not (done or truncated) and (rng or info["oracle"]):
        action = rng.choice(info["admissible"]) if rng else info["oracle"]
        clock = time.process_time()
        _, _, done, truncated, info = env.step(action)
        spent.append(time.process_time() - clock)
    return done, spent


def costs(name: str, env: TextGameEnv, tasks: list[Any]) -> None:
    """Print the cost of loading, of a step that the engine plays and of one that is remembered."""
    load, miss, hit = [], [], []
    for task in tasks:
        textgames._loaded.clear()
        for member in range(MEMBERS):
            rng = random.Random(member % 4)  # noqa: S311
            _, spent = played(env, task, False, rng)
            load += spent[:1] if member == 0 else []
            (miss if member < 4 else hit).extend(spent[1:])
    print(
        f"{name}: load {statistics.mean(load):.3f} s (max {max(load):.2f}), step played first "
        f"{1e3 * statistics.mean(miss):.2f} ms, step remembered {1e3 * statistics.mean(hit):.3f} ms"
    )


def experts(env: TextGameEnv, tasks: list[Any]) -> None:
    """Print how often the informed and the exploring expert win, by family, with mean turns."""
    for informed in (True, False):
        won, turns, count = Counter[str](), Counter[str](), Counter[str]()
        for task in tasks:
            done, spent = played(env, task, informed)
            won[task.family] += done
            turns[task.family] += len(spent) - 1
            count[task.family] += 1
        by = ", ".join(f"{f} {won[f]}/{count[f]} in {turns[f] / count[f]:.1f}" for f in env.families if count[f])
        kind = "informed" if informed else "exploring"
        print(f"{kind} expert: {won.total()}/{count.total()}, {turns.total() / count.total():.1f} turns: {by}")


def groups(env: TextGameEnv, tasks: list[Any]) -> None:
    """Print what one worker does in a second: games loaded and played by a whole group."""
    textgames._loaded.clear()
    clock, turns = time.process_time(), 0
    for task in tasks:
        for member in range(MEMBERS):
            rng = random.Random(member)  # noqa: S311
            turns += len(played(env, task, False, rng)[1]) - 1
    spent = time.process_time() - clock
    print(f"groups of {MEMBERS}: {len(tasks) / spent:.1f} games/s, {turns / spent:.0f} turns/s of CPU time")


def stock(env: TextGameEnv, tasks: list[Any]) -> None:
    """Print what stock TextWorld needs for the same games."""
    import textworld
    from textworld.envs import PddlEnv

    begin, steps = [], []
    for task in tasks:
        clock = time.process_time()
        game = PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True))
        game.load(env._game_data(task))
        state = game.reset()
        begin.append(time.process_time() - clock)
        rng = random.Random(0)  # noqa: S311
        for _ in range(10):
            clock = time.process_time()
            state, _, _ = game.step(rng.choice(state["admissible_commands"]))
            steps.append(time.process_time() - clock)
    print(f"stock TextWorld: load and reset {statistics.mean(begin):.2f} s, step {1e3 * statistics.mean(steps):.0f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=300, help="games for the experts' win rates")
    parser.add_argument("--alfworld", default=None, help="folder of real games to measure too")
    parser.add_argument("--stock", action="store_true", help="measure stock TextWorld beside it")
    options = parser.parse_args()
    clock = time.perf_counter()
    require_textworld()
    print(f"import of TextWorld: {time.perf_counter() - clock:.1f} s")
    tiny = Household(receptacles=5, objects=3, object_types=TINY, max_turns=16)
    clock = time.process_time()
    tasks = [tiny.task("val", index) for index in range(options.games)]
    print(f"task: {1e3 * (time.process_time() - clock) / len(tasks):.2f} ms")
    costs("tiny", tiny, tasks[:30])
    experts(tiny, tasks)
    groups(tiny, tasks[:48])
    if options.stock:
        stock(tiny, tasks[:6])
    room = Household(receptacles=12, objects=12)
    costs("12 receptacles, 12 objects", room, [room.task("val", index) for index in range(12)])
    if options.alfworld:
        real = AlfWorld(data=options.alfworld)
        chosen = [real.task("val", index) for index in range(0, real.num_tasks("val"), 14)]
        costs("alfworld valid_seen", real, chosen)
        experts(real, chosen)
        if options.stock:
            stock(real, chosen[:4])


if __name__ == "__main__":
    main()
