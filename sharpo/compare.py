"""The runs of a sweep side by side: each member, each method over its seeds, a picture, and what it does not show.

Run: ``python -m sharpo.compare FOLDER [--panel greedy]``; a sweep ends with it.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, fmean, stdev

from sharpo import sweep
from sharpo.errors import DataError, SharpoError
from sharpo.stats import sign_test, wilson

DELTA = 0.03  # the difference in success that "seeds needed" speaks of
Counts = Mapping[str, tuple[int, int]]  # family -> (successes, episodes)


@dataclass(frozen=True)
class Run:
    """What one member's ``curve.csv`` says about one panel.

    Args:
        member: its record.
        method: what tells it from the other members, the seed apart.
        curve: ``{iteration: {family: (successes, episodes)}}``; empty before the first validation.
    """

    member: sweep.Member
    method: str
    curve: Mapping[int, Counts]

    def rate(self, iteration: int, family: str = "all") -> float:
        """Return a success rate, NaN when nothing was played."""
        won, seen = self.curve[iteration].get(family, (0, 0))
        return won / seen if seen else math.nan

    @property
    def counts_for_a_method(self) -> bool:
        """Only a finished run with a validation does."""
        return self.member.status == "finished" and bool(self.curve)


def methods(settings: Sequence[Sequence[str]]) -> list[str]:
    """Return what tells each member from the others, without its seed.

    Example:
        >>> methods([["algorithm=grpo", "seed=0", "x=1"], ["algorithm=sharpo", "seed=0", "x=1"]])
        ['grpo', 'sharpo']
    """
    apart = [[s for s in mine if not s.startswith("seed=")] for mine in settings]
    shared = set.intersection(*map(set, apart)) if len(set(map(tuple, apart))) > 1 else set()
    shared = {s for s in shared if not s.startswith("algorithm=")}
    return [" ".join(s.removeprefix("algorithm=") for s in mine if s not in shared) or "run" for mine in apart]


def load(root: Path, panel: str) -> list[Run]:
    """Return the runs below a sweep's folder, baseline first.

    Raises:
        DataError: when there is none, or none has the panel.
    """
    found = [record for path in sorted(root.glob(f"*/{sweep.RECORD}")) if (record := sweep.read(path.parent))]
    if not found:
        raise DataError(f"{root} holds no member of a sweep: give the folder that hparams_search=compare wrote to")
    members = [member for member, _ in found]
    names = methods([member.settings for member in members])
    runs, panels = [], set()
    for member, name in zip(members, names, strict=True):
        curve: dict[int, dict[str, tuple[int, int]]] = {}
        path = member.folder / "curve.csv"
        if path.is_file():
            with path.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    panels.add(row["panel"])
                    if row["panel"] == panel:
                        counts = curve.setdefault(int(row["iteration"]), {})
                        counts[row["family"]] = (int(row["successes"]), int(row["episodes"]))
        runs.append(Run(member, name, dict(sorted(curve.items()))))
    if panels and panel not in panels:
        raise DataError(f"--panel={panel}: the runs have {', '.join(sorted(panels))}")
    return sorted(runs, key=lambda run: (run.method != "grpo", run.method, run.member.seed))


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as text, the first column to the left and the others to the right.

    Example:
        >>> print(aligned([["a", "bc"], ["de", "f"]]))
        a   bc
        de   f
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def with_interval(counts: tuple[int, int]) -> str:
    """Return a rate with Wilson's 95 % interval.

    Example:
        >>> with_interval((8, 10))
        '0.800 [0.490, 0.943]'
    """
    low, high = wilson(*counts)
    return f"{counts[0] / counts[1]:.3f} [{low:.3f}, {high:.3f}]" if counts[1] else "-"


def families_of(runs: Sequence[Run]) -> list[str]:
    """Return the families that were played, in the order of the files."""
    seen = {family: None for run in runs for counts in run.curve.values() for family in counts}
    return [family for family in seen if family != "all"]


def member_table(runs: Sequence[Run]) -> str:
    """Return one line for each member: success before and after with intervals, families after."""
    families = families_of(runs)
    rows = [["method", "seed", "iterations", "before [95 %]", "after [95 %]", "episodes", *families, "status"]]
    for run in runs:
        if not run.curve:
            cells = ["-"] * (4 + len(families))
        else:
            first, last = min(run.curve), max(run.curve)
            each = [f"{run.rate(last, family):.2f}".replace("nan", "-") for family in families]
            ends = [with_interval(run.curve[i]["all"]) for i in (first, last)]
            cells = [f"{first} → {last}", *ends, str(run.curve[last]["all"][1]), *each]
        rows.append([run.method, str(run.member.seed), *cells, run.member.status])
    return aligned(rows)


def mean_sd(values: Sequence[float]) -> str:
    """Return ``mean ± standard deviation``; one value has no deviation.

    Example:
        >>> mean_sd([0.5, 0.7]), mean_sd([0.5])
        ('0.600 ± 0.141', '0.500 ± ?')
    """
    return f"{fmean(values):.3f} ± {f'{stdev(values):.3f}' if len(values) > 1 else '?'}"


def method_table(runs: Sequence[Run]) -> str:
    """Return one line for each method: mean ± SD over seeds, the gain, and the first method beside it seed by seed."""
    groups = by_method(runs)
    families = families_of(runs)
    first, base = next(iter(groups.items()))
    ends = {run.member.seed: run.rate(max(run.curve)) for run in base}
    rows = [["method", "seeds", "before", "after", "gain", *families, f"minus {first}", "better:worse", "p"]]
    for name, mine in groups.items():
        after = [run.rate(max(run.curve)) for run in mine]
        before = [run.rate(min(run.curve)) for run in mine]
        gain = [a - b for a, b in zip(after, before, strict=True)]
        each = [pooled(mine, family) for family in families]
        pairs = (
            []
            if mine is base
            else [a - ends[r.member.seed] for a, r in zip(after, mine, strict=True) if r.member.seed in ends]
        )
        won, lost = sum(d > 0 for d in pairs), sum(d < 0 for d in pairs)
        beside = [mean_sd(pairs), f"{won}:{lost}", f"{sign_test(won, lost):.2f}"] if pairs else ["-"] * 3
        rows.append([name, str(len(mine)), mean_sd(before), mean_sd(after), mean_sd(gain), *each, *beside])
    return aligned(rows)


def by_method(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the finished runs of each method."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.counts_for_a_method:
            groups.setdefault(run.method, []).append(run)
    return groups


def pooled(runs: Sequence[Run], family: str) -> str:
    """Return the success of a family over all seeds together."""
    last = [run.curve[max(run.curve)].get(family, (0, 0)) for run in runs]
    won, seen = map(sum, zip(*last, strict=True))
    return f"{won / seen:.2f}" if seen else "-"


def seeds_needed(sd: float, difference: float = DELTA, power: float = 0.8) -> int:
    """Return the seeds that each method needs: n = 2·((z₀.₉₇₅ + z_power)·σ/δ)², at least 2.

    Source: the two-sample normal approximation at a two-sided level of 5 %.

    Args:
        sd: standard deviation σ over seeds.
        difference: δ that shall be seen.
        power: chance to see it.

    Example:
        >>> seeds_needed(0.028)
        14
    """
    normal = NormalDist()
    reach = (normal.inv_cdf(0.975) + normal.inv_cdf(power)) * sd / difference
    return max(2, math.ceil(2 * reach * reach))


def caution(runs: Sequence[Run]) -> str:
    """Return what the table cannot show: how many seeds there are, and how many it takes."""
    groups = [[run.rate(max(run.curve)) for run in mine] for mine in by_method(runs).values()]
    many = [values for values in groups if len(values) > 1]
    few = min((len(values) for values in groups), default=0)
    text = "Few seeds do not rank methods."
    if not many:
        return f"{text} With one seed there is not even a spread to judge by: run at least a handful."
    freedom = sum(len(values) - 1 for values in many)
    sd = math.sqrt(sum(stdev(values) ** 2 * (len(values) - 1) for values in many) / freedom)
    return (
        f"{text} Here: {few} seed(s) a method, SD over seeds {sd:.3f} (training and the panel's sampling together). "
        f"At this SD a true difference of {DELTA} takes about {seeds_needed(sd)} seeds a method (5 %, power 80 %) "
        f"and the sign test p cannot fall below {2.0 ** (1 - few):.2g} with {few}. SD and p are rough themselves."
    )


def draw(runs: Sequence[Run], path: Path, panel: str) -> None:
    """Draw success against iterations: thin lines are seeds, a thick line is a method's mean over its seeds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for number, (name, mine) in enumerate(by_method(runs).items()):
        colour = f"C{number}"
        for run in mine:
            axes.plot(list(run.curve), [run.rate(i) for i in run.curve], color=colour, alpha=0.3, linewidth=0.8)
        shared = sorted(set.intersection(*(set(run.curve) for run in mine)))
        means = [fmean(run.rate(i) for run in mine) for i in shared]
        axes.plot(shared, means, color=colour, marker="o", markersize=3, label=f"{name} ({len(mine)} seeds)")
    axes.set(xlabel="iteration", ylabel="success", ylim=(0, 1), title=f"Panel {panel}: few seeds do not rank methods")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", frameon=False, fontsize="small")
    figure.savefig(path, dpi=130)


def report(root: Path, panel: str = "val") -> str:
    """Return the tables of a sweep's folder as text and draw ``compare_<panel>.png`` into it."""
    runs = load(root, panel)
    parts = [f"{root}, panel {panel}", member_table(runs)]
    if by_method(runs):
        picture = root / f"compare_{panel}.png"
        draw(runs, picture, panel)
        parts += ["Mean ± SD over seeds; families: all seeds together", method_table(runs), caution(runs), str(picture)]
    else:
        parts.append("No member is finished with a validation (callbacks=default writes curve.csv).")
    return "\n\n".join(parts)


def close(members: Sequence[sweep.Member]) -> None:
    """Print the reports of the members' folders, if any, and each failure; a failure ends with exit code 1."""
    if not members:
        return
    for root in dict.fromkeys(member.folder.parent for member in members):
        print(f"\n{report(root)}")  # noqa: T201
    print(f"\n{sweep.outcome(members)}")  # noqa: T201
    if any(member.status == "failed" for member in members):
        raise SystemExit(1)


def main() -> None:
    """Report from the command line."""
    parser = argparse.ArgumentParser(prog="python -m sharpo.compare", description=__doc__)
    parser.add_argument("folder", type=Path, help="of a sweep: runs/compare/household_demo")
    parser.add_argument("--panel", default="val", help="whose success is compared (default: val)")
    chosen = parser.parse_args()
    try:
        print(report(chosen.folder, chosen.panel))  # noqa: T201
    except SharpoError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
