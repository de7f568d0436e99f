"""One step of benchmarks/gpu_check.sh: prints one row of a markdown table."""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from sharpo import cli, scoring
from sharpo.episode import EpisodeGroup
from sharpo.errors import GateError
from sharpo.rollout.buffer import Origin, RolloutBuffer
from sharpo.rollout.collate import collate
from sharpo.rollout.collector import Collector

Step = Callable[[Any, str], str]


def play(parts: Any, device: str) -> tuple[Any, Any, Any, Any]:
    """Load policy and engine, play one iteration; return data module, policy, engine and what was played."""
    data, policy = parts.data(), parts.policy().to(device)
    engine, pool = data.make_engine(), data.make_pool(data.make_env)
    engine.load_weights(0, policy.named_weights())
    tasks = [data.env.task("train", index) for index in range(data.sizes.groups)]
    collector = Collector(engine, pool, data.renderer, data.env.parse, data.budgets)
    played = collector.collect(tasks, data.sizes.group_size, seed=0, version=0, temperature=parts.cfg.temperature)
    pool.close()
    return data, policy, engine, played


def parity(cfg: Any, device: str) -> str:
    """Compare the engine's log-probability of every sampled token with the trainer's, at the trainer's precision."""
    parts = cli.Parts(cfg)
    data, policy, engine, played = play(parts, device)
    engine.close()
    groups = [EpisodeGroup(episodes[0].task, tuple(episodes)) for episodes in played.groups]
    rows = collate(groups, parts.algorithm, data.hint, data.renderer.tokenize, engine.max_context)
    buffer = RolloutBuffer(rows, data.sizes, 1, Origin(0, 0, 0, data.renderer.pad_id), {})
    gate = cli.build(cfg.gate, "gate")
    half = cfg.trainer.get("precision") == "bf16-mixed"
    with torch.autocast(device, torch.bfloat16, enabled=half):
        found = scoring.score(buffer, policy, parts.algorithm, temperature=cfg.temperature, device=device, gate=gate)
    numbers = ", ".join(f"{name} {found[f'gate/{name}']:.2g}" for name in ("max_abs", "p99_abs", "mean_abs"))
    speed = played.stats.tokens / played.stats.seconds_total
    return f"{numbers} nats over {played.stats.tokens} tokens; rollout {speed:.0f} tokens/s"


def fit(cfg: Any, device: str) -> str:
    """Train and report the last iteration's speed and the gate."""
    del device  # trainer.accelerator says it
    cli.train(cfg)
    path = next(Path(cfg.paths.run).rglob("metrics.csv"))
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row.get("throughput/tokens_per_s")]
    last = {name: float(rows[-1][name]) for name in rows[-1] if rows[-1][name]}
    names = {"throughput/tokens_per_s": "tokens/s", "time/iteration_s": "s/iteration", "gate/max_abs": "gate/max_abs"}
    return f"{len(rows)} iterations; last: " + ", ".join(f"{last[k]:.3g} {v}" for k, v in names.items() if k in last)


def sleep(cfg: Any, device: str) -> str:
    """Put vLLM to sleep, wake it with the same weights, and compare scores."""
    _, policy, engine, played = play(cli.Parts(cfg), device)
    turn = played.groups[0][0].turns[0]
    before = engine.score(turn.prompt_ids, turn.action_ids, cfg.temperature)
    awake = torch.cuda.mem_get_info()[0]
    engine.sleep()
    freed = (torch.cuda.mem_get_info()[0] - awake) / 2**30
    engine.load_weights(1, policy.named_weights())
    after = engine.score(turn.prompt_ids, turn.action_ids, cfg.temperature)
    engine.close()
    change = max(abs(a - b) for a, b in zip(before, after, strict=True))
    if change > 1e-3 or freed <= 0:
        raise GateError(f"sleep gave back {freed:.1f} GiB; scores changed by {change:.2g} nats")
    return f"{freed:.1f} GiB given back; scores after waking differ by {change:.2g} nats"


STEPS: dict[str, Step] = {"parity": parity, "fit": fit, "sleep": sleep}


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--what", default="", help="name of the row")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu rehearses the steps")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="as for train.py")
    arguments = parser.parse_intermixed_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("gpu_check: torch sees no GPU; nothing was measured", file=sys.stderr)
        raise SystemExit(2)

    def run(cfg: Any) -> None:
        begun = time.perf_counter()
        name = arguments.what or arguments.step
        try:
            result = STEPS[arguments.step](cfg, arguments.device)
        except GateError as error:
            print(f"| {name} | FAILED: {error} | | |")
            raise
        peak = f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB" if arguments.device == "cuda" else "-"
        print(f"| {name} | {result} | {peak} | {time.perf_counter() - begun:.0f} |")

    sys.argv = [sys.argv[0], *arguments.overrides]
    cli.main(run)


if __name__ == "__main__":
    main()
