"""What each method adds to the update: scoring and training on the same episodes, beside GRPO, in one run.

Run: ``python benchmarks/method_cost.py [--repeats N] [train.py overrides]``.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch
from noisy_play import noisy_groups

from sharpo import cli, scoring, update
from sharpo.episode import EpisodeGroup
from sharpo.rollout.buffer import Origin, RolloutBuffer
from sharpo.rollout.collate import collate

FOLDER = Path(__file__).resolve().parents[1] / "configs" / "algorithm"


def measured(
    name: str, overrides: list[str], groups: list[EpisodeGroup] | None, repeats: int
) -> tuple[list[EpisodeGroup], Any]:
    """Return the episodes and, for a method: best seconds of score + update, tokens of both kinds of pass."""
    parts = cli.Parts(cli.read("train", [*overrides, f"algorithm={name}"]))
    data, algorithm, temperature = parts.data(), parts.algorithm, parts.cfg.temperature
    groups = groups or noisy_groups(data)
    table = collate(groups, algorithm, data.hint, data.renderer.tokenize, None)
    micro = parts.cfg.trainer.get("accumulate_grad_batches", 1)
    policy = parts.policy()
    optimizer = parts.module().make_optimizer(list(policy.named_parameters()))
    seconds, metrics = [], {}
    for _ in range(repeats):
        origin = Origin(0, 0, 0, data.renderer.pad_id, 1)
        buffer = RolloutBuffer(
            table, data.sizes, micro, origin, {},
            with_teacher=algorithm.needs_teacher, teacher_in_update=algorithm.divergence is not None,
        )  # fmt: skip
        begun = time.perf_counter()
        metrics = scoring.score(
            buffer, policy, algorithm, temperature=temperature, device="cpu",
            reference=policy if algorithm.needs_reference else None,
        )  # fmt: skip
        for index in range(len(buffer)):
            batch, scores = buffer[index]
            update.step(policy, algorithm, batch, scores, temperature).loss.backward()
            if (index + 1) % buffer.micro_batches == 0:
                optimizer.step()
                optimizer.zero_grad()
        seconds.append(time.perf_counter() - begun)
    student = sum(len(row) for row in table.rows)
    teacher = metrics["credit/teacher_rows"]
    return groups, (min(seconds), student, int(teacher), table.hints["tokens"] / max(table.hints["built"], 1))


def methods(overrides: list[str]) -> list[str]:
    """Return the names of ``configs/algorithm`` that learn from their own episodes, GRPO aside."""
    names = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "grpo")
    made = {name: cli.read("train", [*overrides, f"algorithm={name}"]).algorithm for name in names}
    return [name for name in names if cli.build(made[name], "algorithm").needs_scores]


def main() -> None:
    """Print one line for each method."""
    parser = argparse.ArgumentParser(description="Scores and trains on the same episodes by every method.")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="the best of so many counts (default: 5)")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="as for train.py")
    arguments = parser.parse_intermixed_args()
    overrides = [item for item in arguments.overrides if not item.startswith("algorithm=")]

    def run(cfg: Any) -> None:
        torch.manual_seed(cfg.seed)
        repeats = arguments.repeats
        groups, _ = measured("grpo", overrides, None, repeats)  # not counted: a process's first passes are slower
        _, base = measured("grpo", overrides, groups, repeats)
        print(f"{len(groups)} groups of {cfg.data.sizes.group_size}, {base[1]} tokens; best of {repeats}\n")
        print("| method | score + update ÷ GRPO's | rows the teacher scored | mean hint, tokens |\n|---|---|---|---|")
        print(f"| grpo ({base[0]:.2f} s) | 1.00 | 0 | |")
        for name in methods(overrides):
            _, (seconds, _, rows, hint) = measured(name, overrides, groups, repeats)
            print(f"| {name} | {seconds / base[0]:.2f} | {rows} | {f'{hint:.0f}' if rows else ''} |", flush=True)

    sys.argv[1:] = arguments.overrides
    cli.main(run)


if __name__ == "__main__":
    main()
