"""Native play beside TextWorld's, step by step, over ALFWorld's games: every difference is printed.

Run: ``python benchmarks/alfworld_parity.py --source FOLDER [--train 300] [--steps 350] [--workers 2]``.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sharpo.envs.games import Game
from sharpo.envs.native.engine import NOTHING, NativeGame
from sharpo.envs.native.release import FAMILY_OF, GAME, find, games
from sharpo.envs.native.translate import compile_game
from sharpo.envs.oracle import Floor, Goal, View, advise

EPISODE = 50
HOSTILE = ("", "dance", "go to nowhere 1", "LOOK", "take  apple 1 from fridge 1", "open", "help me", "look\nlook")


def hostile(rng: random.Random, admissible: list[str]) -> str:
    """Return a command that a confused agent might write: unknown, odd case or spaces, the other command form."""
    command = rng.choice(admissible)
    twisted = (
        command.upper(),
        f"  {command} ",
        command.replace(" ", "  "),
        command.replace(" in/on ", " to ").replace("put ", "move "),
        command.replace("move ", "put ").replace(" to ", " in/on "),
        command[:-1],
    )
    return rng.choice((*HOSTILE, *twisted))


def compare(path: str, steps: int, seed: int) -> tuple[str, int, int, Counter[str], list[str], float, float]:
    """Play one game for about ``steps`` steps on both engines; return counts, differences and CPU seconds of each."""
    name = "/".join(Path(path).parts[-4:-1])
    data = json.loads(Path(path).read_text())
    clock = time.process_time()
    native = NativeGame(compile_game(data))
    ours = 0.0
    reference = Game(data)
    kind, target, _, destination, _ = name.split("/")[1].split("-")
    floor = Floor(native, Goal(FAMILY_OF[kind], target, destination))
    rng, done, kinds, wrong, seen = random.Random(seed), 0, Counter[str](), [], set()  # noqa: S311
    theirs = time.process_time() - clock
    if native.intro != reference.intro:
        wrong.append(f"{name}: intro")
    episode = 0
    while done < steps and not wrong:
        state, node, share = native.start, reference.start, (0.0, 0.9, 0.3)[episode % 3]
        episode += 1
        for _ in range(EPISODE):
            clock = time.process_time()
            options, won = native.options(state), native.won(state)
            ours += time.process_time() - clock
            if list(options) != list(reference.options(node)) or won != reference.won(node):
                wrong.append(f"{name}: commands or verdict after {done} steps")
            if wrong or won:
                break
            draw = rng.random()
            advice = advise(View(floor, state, options), None) if draw < share else None
            way = "expert" if advice else "hostile" if draw > 0.9 else "random"
            command = advice or (hostile(rng, list(options)) if way == "hostile" else rng.choice(list(options)))
            done, kinds = done + 1, kinds + Counter([way])
            command = command.strip()
            if (command in options) != (command in reference.options(node)):
                wrong.append(f"{name}: {command!r} is known to one engine only")
                break
            if command not in options:  # both answer NOTHING and stay where they are
                assert NOTHING == "Nothing happens."
                continue
            seen.add((state, command))
            clock = time.process_time()
            text, state = native.play(state, options[command])
            ours += time.process_time() - clock
            clock = time.process_time()
            expected, node = reference.play(node, reference.options(node)[command])
            theirs += time.process_time() - clock
            if text != expected:
                wrong.append(f"{name}: {command!r}: {text!r} instead of {expected!r}")
    return name, done, len(seen), kinds, wrong, ours, theirs


def main() -> int:
    """Compare the games and print totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--train", type=int, default=300)
    parser.add_argument("--valid", type=int, default=None, help="games of each validation split; default all")
    parser.add_argument("--steps", type=int, default=350)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    root, jobs = find(given.source), []
    for split, most in (("valid_seen", given.valid), ("valid_unseen", given.valid), ("train", given.train)):
        names = games(root / split)
        wanted = len(names) if most is None else min(most, len(names))
        jobs += [str(root / split / names[i * len(names) // wanted] / GAME) for i in range(wanted)]
    steps, distinct, ways, families = 0, 0, Counter[str](), Counter[str]()
    wrong: list[str] = []
    ours = theirs = 0.0
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        found: Any = pool.map(compare, jobs, [given.steps] * len(jobs), range(len(jobs)))
        for number, (name, done, new, kinds, bad, a, b) in enumerate(found, 1):
            steps, distinct, ways, wrong = steps + done, distinct + new, ways + kinds, wrong + bad
            ours, theirs = ours + a, theirs + b
            families[f"{name.split('/')[0]}/{FAMILY_OF[name.split('/')[1].split('-')[0]]}"] += 1
            print(*bad, sep="\n", end="\n" if bad else "")
            if number % 20 == 0:
                print(f"{number}/{len(jobs)} games, {steps} steps, {len(wrong)} differences", flush=True)
    print(f"{len(jobs)} games {dict(families)}")
    print(f"{steps} steps {dict(ways)}, {distinct} distinct transitions, {len(wrong)} differences")
    print(f"CPU seconds of the steps: native {ours:.1f}, TextWorld with its cache (loading included) {theirs:.1f}")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
