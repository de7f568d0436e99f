"""Intervals and paired tests for success counts: pure, standard library only."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple


class Interval(NamedTuple):
    """A closed interval of a rate."""

    low: float
    high: float


def wilson(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Return Wilson's score interval of a success rate: (p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n).

    Source: Wilson (1927), the score interval.

    Args:
        successes: successes, at most ``trials``.
        trials: independent trials n; with none the interval is [0, 1].
        confidence: coverage, in (0, 1).

    Raises:
        ValueError: when ``successes`` is not between 0 and ``trials``.

    Example:
        >>> low, high = wilson(8, 10)
        >>> round(low, 4), round(high, 4)
        (0.4902, 0.9433)
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"wilson: successes must be between 0 and trials={trials}, got {successes}")
    if trials == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate, spread = successes / trials, z * z / trials
    half = z * math.sqrt(rate * (1 - rate) / trials + spread / (4 * trials))
    centre = rate + spread / 2
    return Interval(max(0.0, (centre - half) / (1 + spread)), min(1.0, (centre + half) / (1 + spread)))


def bootstrap(values: Sequence[float], *, seed: int, draws: int = 2000, confidence: float = 0.95) -> Interval:
    """Return the percentile bootstrap interval of a mean: quantiles of the means of ``draws`` resamples.

    Source: Efron (1979), the percentile method.

    Args:
        values: one number for each independent unit (a game, a seed).
        seed: of the resampling.
        draws: resamples.
        confidence: coverage, in (0, 1).

    Raises:
        ValueError: when ``values`` is empty.

    Example:
        >>> bootstrap([0.5, 0.5], seed=0)
        Interval(low=0.5, high=0.5)
    """
    if not values:
        raise ValueError("bootstrap: needs at least one value")
    generator = random.Random(seed)  # noqa: S311 - resampling, not secrets
    means = sorted(math.fsum(generator.choices(values, k=len(values))) / len(values) for _ in range(draws))
    tail = (1 - confidence) / 2
    return Interval(means[math.floor(tail * (draws - 1))], means[math.ceil((1 - tail) * (draws - 1))])


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided exact sign test: min(1, 2·P(X ≤ min(wins, losses))), X ~ Binomial(wins+losses, ½).

    Args:
        wins: pairs in which the second is better.
        losses: pairs in which the first is better; ties are left out.

    Example:
        >>> round(sign_test(8, 2), 4)
        0.1094
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"sign_test: counts must be >= 0, got {wins} and {losses}")
    pairs = wins + losses
    tail = sum(math.comb(pairs, k) for k in range(min(wins, losses) + 1))
    return min(1.0, 2 * tail / 2**pairs)


def mcnemar(before: Sequence[bool], after: Sequence[bool]) -> float:
    """Return McNemar's exact test of two paired success lists: the sign test of the pairs that changed.

    Source: McNemar (1947), exact binomial form.

    Args:
        before: success of each task under the first policy.
        after: success of the same tasks, in the same order, under the second.

    Raises:
        ValueError: when the lists differ in length.

    Example:
        >>> mcnemar([False, False, True], [True, True, True])
        0.5
    """
    if len(before) != len(after):
        raise ValueError(f"mcnemar: the lists pair up, got {len(before)} and {len(after)} tasks")
    wins = sum(b and not a for a, b in zip(before, after, strict=True))
    losses = sum(a and not b for a, b in zip(before, after, strict=True))
    return sign_test(wins, losses)


def summary(counts: Mapping[str, Mapping[str, tuple[int, int]]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return ``{panel: {family: {successes, episodes, rate, low, high}}}`` with Wilson's 95 % intervals.

    Args:
        counts: ``{panel: {family: (successes, episodes)}}``.
    """
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for panel, families in counts.items():
        out[panel] = {}
        for family, (won, seen) in families.items():
            low, high = wilson(won, seen)
            rate = won / seen if seen else None
            out[panel][family] = {"successes": won, "episodes": seen, "rate": rate, "low": low, "high": high}
    return out


def table(
    panels: Mapping[str, Mapping[str, Mapping[str, Any]]], scores: Mapping[str, Mapping[str, float]] | None = None
) -> str:
    """Return a summary as text, one line for each family of each panel, and one for each panel's mean score.

    Args:
        panels: from :func:`summary`.
        scores: ``{panel: {mean, low, high}}``.

    Example:
        >>> print(table(summary({"val": {"pick": (3, 4), "all": (3, 4)}})))
        panel      family     success    95 % interval   episodes
        val        pick         0.750   0.301 to 0.954          4
        val        all          0.750   0.301 to 0.954          4
    """
    lines = [f"{'panel':<10} {'family':<10} {'success':>7}    {'95 % interval':>13}   {'episodes':>8}"]
    for panel, families in panels.items():
        for family, row in families.items():
            rate = "-" if row["rate"] is None else f"{row['rate']:.3f}"
            interval = f"{row['low']:.3f} to {row['high']:.3f}"
            lines.append(f"{panel:<10} {family:<10} {rate:>7}   {interval:>14} {row['episodes']:>10}")
    for panel, row in (scores or {}).items():
        interval = f"{row['low']:.3f} to {row['high']:.3f}"
        lines.append(f"{panel:<10} {'(score)':<10} {row['mean']:>7.3f}   {interval:>14}")
    return "\n".join(lines)
