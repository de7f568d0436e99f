"""The first result: warm-start a tiny policy, train it with SHARPO through vLLM, show success by family.

Run: ``make demo`` or ``python -m sharpo.demo [train.py overrides]``.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sharpo.stats import wilson

RUNS = Path(os.environ.get("SHARPO_RUNS", "runs"))  # as in configs/paths
WARM = RUNS / "models" / "household_warmstart"
PANELS = {"val": "temperature 1", "greedy": "greedy"}
Counts = Mapping[tuple[str, str], tuple[int, int]]  # (panel, family) -> (successes, episodes)


def read_counts(path: str | Path) -> tuple[int, Counts, int, Counts]:
    """Return the first and the last validation of a run's ``curve.csv``: iteration, counts, iteration, counts.

    Args:
        path: of the CSV that ``LearningCurve`` wrote.
    """
    by_iteration: dict[int, dict[tuple[str, str], tuple[int, int]]] = {}
    with Path(path).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            counts = by_iteration.setdefault(int(row["iteration"]), {})
            counts[row["panel"], row["family"]] = (int(row["successes"]), int(row["episodes"]))
    first, last = min(by_iteration), max(by_iteration)
    return first, by_iteration[first], last, by_iteration[last]


def cell(counts: tuple[int, int] | None) -> str:
    """Return ``rate [low, high] (n)``, or a dash when nothing was played.

    Example:
        >>> cell((8, 10))
        '0.80 [0.49, 0.94] (10)'
    """
    if counts is None or not counts[1]:
        return "-"
    low, high = wilson(*counts)
    return f"{counts[0] / counts[1]:.2f} [{low:.2f}, {high:.2f}] ({counts[1]})"


def table(path: str | Path) -> Table:
    """Return success by family before and after, one column pair for each panel."""
    first, before, last, after = read_counts(path)
    out = Table(title=f"Success on unseen games: before (iteration {first}) and after {last} iterations of SHARPO")
    out.add_column("family")
    panels = [name for name in PANELS if any(panel == name for panel, _ in before)]
    for panel in panels:
        out.add_column(f"{PANELS[panel]}: before", justify="right")
        out.add_column("after", justify="right")
    families = [family for panel, family in before if panel == panels[0] and family != "all"]
    for family in [*families, "all"]:
        row = [cell(counts.get((panel, family))) for panel in panels for counts in (before, after)]
        out.add_row(family, *row, style="bold" if family == "all" else None, end_section=family == families[-1])
    return out


def train(*arguments: str) -> None:
    """Run ``train.py`` in its own process; a failure ends the demo with its exit code."""
    done = subprocess.run([sys.executable, "-m", "sharpo.cli", *arguments], check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(done.returncode)


def main(arguments: list[str]) -> None:
    """Warm-start once, train, show."""
    if {"-h", "--help"} & set(arguments):
        print(__doc__)  # noqa: T201
        return
    console = Console()
    begun = time.monotonic()
    if (WARM / "config.json").is_file():
        console.print(f"[bold]1/2[/] warm start: reusing {WARM} (delete it to make it again)")
    else:
        console.print("[bold]1/2[/] warm start: a tiny policy from scratch imitates a noisy expert")
        train("experiment=household_warmstart")
    warm = time.monotonic() - begun
    run = RUNS / "household_demo" / datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    console.print("[bold]2/2[/] SHARPO: the policy plays through vLLM and learns from its own episodes")
    train("experiment=household_demo", f"paths.run={run}", *arguments)
    console.print(table(run / "curve.csv"))
    console.print(f"warm start {warm:.0f} s, training and validation {time.monotonic() - begun - warm:.0f} s")
    for what, name in (
        ("learning curve", "curve.png"),
        ("its numbers", "curve.csv"),
        ("all metrics", "metrics"),
        ("where credit went", "credit"),
        ("episodes to read", "episodes"),
        ("checkpoints", "checkpoints"),
        ("trained policy", "policy"),
        ("configuration", "config.yaml"),
    ):
        if (run / name).exists():
            console.print(f"  {what:<17} {run / name}", highlight=False)


if __name__ == "__main__":
    main(sys.argv[1:])
