"""What each method adds to the update: scoring and training on the same episodes, beside GRPO, in one run.

Run: ``python benchmarks/method_cost.py [--repeats N] [--methods NAME,NAME] [train.py overrides]``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from noisy_play import noisy_groups

from sharpo import cli, scoring, update
from sharpo.episode import EpisodeGroup
from sharpo.errors import ConfigError
from sharpo.rollout.buffer import Origin, RolloutBuffer
from sharpo.rollout.collate import collate

FOLDER = Path(__file__).resolve().parents[1] / "configs" / "algorithm"


@dataclass
class Prepared:
    """A method with its rows, its own copy of the weights and an optimizer."""

    once: Callable[[], float]
    """Scores and trains one pass; the seconds it took, and ``credit/teacher_rows`` goes into ``metrics``."""
    metrics: dict[str, float]
    tokens: int
    hint: float


def prepared(name: str, overrides: list[str], groups: list[EpisodeGroup]) -> Prepared:
    """Return a method over the episodes of ``groups``, which are made when there are none."""
    parts = cli.Parts(cli.read("train", [*overrides, f"algorithm={name}"]))
    data, algorithm, temperature = parts.data(), parts.algorithm, parts.cfg.temperature
    groups += [] if groups else noisy_groups(data)
    table = collate(groups, algorithm, data.hint, data.renderer.tokenize, None)
    micro = parts.cfg.trainer.get("accumulate_grad_batches", 1)
    policy = parts.policy()
    optimizer = parts.module().make_optimizer(list(policy.named_parameters()))
    metrics: dict[str, float] = {}

    def once() -> float:
        origin = Origin(0, 0, 0, data.renderer.pad_id, 1)
        buffer = RolloutBuffer(
            table, data.sizes, micro, origin, {},
            with_teacher=algorithm.needs_teacher, teacher_in_update=algorithm.divergence is not None,
        )  # fmt: skip
        begun = time.perf_counter()
        seen = scoring.score(
            buffer, policy, algorithm, temperature=temperature, device="cpu",
            reference=policy if algorithm.needs_reference else None,
        )  # fmt: skip
        for index in range(len(buffer)):
            batch, scores = buffer[index]
            update.step(policy, algorithm, batch, scores, temperature).loss.backward()
            if (index + 1) % buffer.micro_batches == 0:
                optimizer.step()
                optimizer.zero_grad()
        took = time.perf_counter() - begun
        metrics.update(seen)
        return took

    tokens = sum(len(row) for row in table.rows)
    return Prepared(once, metrics, tokens, table.hints["tokens"] / max(table.hints["built"], 1))


def methods(overrides: list[str], asked: Sequence[str] = ()) -> list[str]:
    """Return the names of ``configs/algorithm`` that learn from their own episodes, GRPO aside, or those asked for.

    Raises:
        ConfigError: when one that was asked for does not exist, or has no scoring and update of its own episodes.
    """
    names = asked or sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "grpo")
    made = {name: cli.read("train", [*overrides, f"algorithm={name}"]).algorithm for name in names}
    own = [name for name in names if cli.build(made[name], "algorithm").needs_scores]
    for name in asked:
        if name not in own:
            raise ConfigError(f"--methods {name}: it does not learn from its own episodes; choose others")
    return own


def main() -> None:
    """Print one line for each method."""
    parser = argparse.ArgumentParser(description="Scores and trains on the same episodes by every method.")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="the best of so many counts (default: 5)")
    parser.add_argument("--methods", default="", metavar="NAME,NAME", help="only these (default: all)")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="as for train.py")
    arguments = parser.parse_intermixed_args()
    overrides = [item for item in arguments.overrides if not item.startswith("algorithm=")]

    def run(cfg: Any) -> None:
        torch.manual_seed(cfg.seed)
        groups: list[EpisodeGroup] = []
        names = methods(overrides, [name for name in arguments.methods.split(",") if name])
        base = prepared("grpo", overrides, groups)
        base.once()  # not counted: first passes are slower
        head = f"{len(groups)} groups of {cfg.data.sizes.group_size}, {base.tokens} tokens"
        print(f"{head}; best of {arguments.repeats}\n")
        print("| method | score + update ÷ GRPO's | GRPO's, s | rows the teacher scored | mean hint, tokens |")
        print("|---|---|---|---|---|")
        for name in names:
            method = prepared(name, overrides, groups)
            method.once()
            pairs = [
                (base.once(), method.once()) for _ in range(arguments.repeats)
            ]  # in turns: both on the same machine
            best, own = (min(times) for times in zip(*pairs, strict=True))
            rows = int(method.metrics["credit/teacher_rows"])
            hint = f"{method.hint:.0f}" if rows else ""
            print(f"| {name} | {own / best:.2f} | {best:.2f} | {rows} | {hint} |", flush=True)

    sys.argv[1:] = arguments.overrides
    cli.main(run)


if __name__ == "__main__":
    main()
