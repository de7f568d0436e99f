"""Does the credit fall on the mistake? Plants one needless action in each trajectory, looks for the lowest weight.

Run: ``python -m sharpo.credit_check [--tasks N] [--play expert|policy] [train.py overrides]``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sharpo import scoring
from sharpo.algorithms.base import Algorithm
from sharpo.engine.expert import ExpertEngine
from sharpo.engine.planter import PEER, PROBE, Planter
from sharpo.engine.scripted import TextEngine
from sharpo.episode import Episode, EpisodeGroup
from sharpo.errors import ConfigError, DataError
from sharpo.rollout.buffer import Origin, RolloutBuffer, Sizes
from sharpo.rollout.collate import collate
from sharpo.rollout.collector import Collector
from sharpo.rollout.panel import Panel
from sharpo.segments import Segments
from sharpo.stats import wilson

NAMES = {
    "weight": "segment weight",
    "gap": "gap, peer of the same game",
    "gap_wrong_game": "gap, peer of another game",
    "student_logp": "the policy's own log-probability",
}


@dataclass(frozen=True)
class Found:
    """What one kind of signal found: how often the planted segment is the lowest, and the area under the ROC curve."""

    lowest: int
    trials: int
    auc: float

    def line(self, name: str) -> str:
        """Return one line of the report."""
        low, high = wilson(self.lowest, self.trials)
        rate = self.lowest / max(self.trials, 1)
        return f"  {name:<34} {rate:6.1%}  [{low:5.1%}, {high:5.1%}]   {self.auc:.3f}"


def area_under_curve(good: Tensor, bad: Tensor) -> float:
    """Return the chance that a good value exceeds a bad one, ties by half: AUC = P(g > b) + ½ P(g = b).

    Args:
        good: (N,) float.
        bad: (M,) float.

    Example:
        >>> area_under_curve(torch.tensor([2.0, 3.0]), torch.tensor([1.0, 2.0]))
        0.875
    """
    difference = good[:, None] - bad[None, :]
    return float(((difference > 0).double() + 0.5 * (difference == 0)).mean())


def find(values: Tensor, episode: Tensor, planted: Tensor) -> Found:
    """Look for the planted segments among the lowest values of their episodes; a tie counts by its share.

    Args:
        values: one number for each segment, (S,) float.
        episode: (S,) int.
        planted: (S,) bool, one True for each episode.
    """
    hits = 0.0
    for index in episode.unique():
        mine = episode == index
        lowest = values[mine] == values[mine].min()
        hits += float((lowest & planted[mine]).sum() / lowest.sum())
    return Found(round(hits), len(episode.unique()), area_under_curve(values[~planted], values[planted]))


@dataclass(frozen=True)
class Report:
    """What every kind of signal found, how often chance would, and over how many trajectories."""

    found: dict[str, Found]
    chance: float
    episodes: int
    play: str

    def __str__(self) -> str:
        """Return the printed form."""
        return "\n".join(
            [
                f"{self.episodes} trajectories of unseen games played by the {self.play}, one needless action planted "
                "in each",
                f"  {'':<34} {'lowest':>6}  {'95 % interval':<16} AUC",
                *(self.found[key].line(name) for key, name in NAMES.items()),
                f"  {'chance':<34} {self.chance:6.1%}",
                "lowest: how often the planted segment has the lowest value of its trajectory.",
                "AUC: the chance that another segment is above the planted one; 0.5 = no signal.",
            ]
        )


def report(parts: Any, tasks: int, play: str, seed: int) -> Report:
    """Play, plant, score and look.

    Args:
        parts: a built run (``sharpo.cli.Parts``).
        tasks: unseen tasks to use.
        play: ``expert`` (the informed oracle plays the probe) or ``policy`` (the policy does, as in training).
        seed: of the planted errors.

    Raises:
        ConfigError: when the method has no teacher, or ``tasks`` is below 2.
        DataError: when fewer than two tasks give a successful peer and a probe long enough to plant in.
    """
    algorithm: Algorithm = parts.algorithm
    if not algorithm.needs_teacher:
        raise ConfigError(f"credit_check: {type(algorithm).__name__} has no teacher; choose algorithm=sharpo")
    if tasks < 2:
        raise ConfigError(f"credit_check: --tasks must be at least 2, got {tasks}")
    known = parts.env.num_tasks("val")
    if known is not None and tasks > known:
        raise ConfigError(f"credit_check: the environment has {known} unseen tasks; --tasks is {tasks}")
    data, policy = parts.data(), parts.policy()
    pairs, turns = _play(parts, data, policy, tasks, play, seed)
    if len(pairs) < 2:
        raise DataError(f"credit_check: only {len(pairs)} of {tasks} tasks have a successful peer; give more --tasks")
    wrong = [  # a peer of another game, passed off as one of this game
        (replace(_other(pairs, i), task=probe.task), probe) for i, (_, probe) in enumerate(pairs)
    ]
    score = _scorer(parts, data, policy)
    true_table, true_weight = score(pairs)
    wrong_table, _ = score(wrong)
    mine = _mine(true_table, wrong_table, turns)
    if not bool(mine.any()):
        raise DataError("credit_check: no hint fits beside its episode; raise data.sizes.max_row or engine.max_context")
    planted = (true_table.turn == turns[true_table.episode // 2])[mine]
    assert true_table.student_logp is not None
    values = {
        "weight": true_weight,
        "gap": _gap(true_table),
        "gap_wrong_game": _gap(wrong_table),
        "student_logp": true_table.student_logp / true_table.length.clamp(min=1),
    }
    episode = true_table.episode[mine]
    found = {name: find(x[mine], episode, planted) for name, x in values.items()}
    counts = episode.unique(return_counts=True)[1]
    return Report(found, float((1.0 / counts).mean()), len(counts), play)


def _play(
    parts: Any, data: Any, policy: Any, tasks: int, play: str, seed: int
) -> tuple[list[tuple[Episode, Episode]], Tensor]:
    """Return (peer, probe) of the tasks that can be used, and the planted turn of each, (N,) int."""
    context = parts.plain["engine"].get("max_context")
    peer = ExpertEngine(encode=data.renderer.action_ids, max_context=context)
    probe = peer if play == "expert" else data.make_engine()
    planter = Planter(peer, probe, data.renderer.action_ids, seed)
    pool = data.make_pool(data.make_env)
    try:
        if not isinstance(probe, TextEngine):
            probe.load_weights(0, policy.named_weights())
        collector = Collector(planter, pool, data.renderer, data.env.parse, data.budgets)
        chosen = Panel(tasks=tasks).select(data.env)
        informed = frozenset({PROBE}) if play == "expert" else frozenset()
        played = collector.collect(
            chosen, 2, seed=seed, version=0, temperature=parts.cfg.temperature, hinted_members=informed
        )
    finally:
        pool.close()
        planter.close()
    pairs = [
        (group[PEER], group[PROBE])
        for group in played.groups
        if group[PEER].outcome.success and len(group[PROBE].turns) > planter.turn(group[PEER].task.id)
    ]
    return pairs, torch.tensor([planter.turn(probe.task.id) for _, probe in pairs], dtype=torch.int64)


def _mine(true_table: Segments, wrong_table: Segments, turns: Tensor) -> Tensor:
    """Return the probes' segments that both teachers scored, of the episodes whose planted one is there, (S,) bool."""
    scored = (true_table.episode % 2 == PROBE) & true_table.selected & wrong_table.selected
    planted = scored & (true_table.turn == turns[true_table.episode // 2])
    whole = torch.zeros(2 * len(turns), dtype=torch.bool).index_fill(0, true_table.episode[planted], True)
    return scored & whole[true_table.episode]


def _other(pairs: Sequence[tuple[Episode, Episode]], index: int) -> Episode:
    """Return the successful peer of the next game of another family, or simply of the next game."""
    family = pairs[index][0].task.family
    order = [pairs[(index + step) % len(pairs)][0] for step in range(1, len(pairs))]
    return next((episode for episode in order if episode.task.family != family), order[0])


def _gap(table: Segments) -> Tensor:
    """Return the mean gap in nats per token, (S,) float; NaN where the teacher did not score."""
    assert table.teacher_logp is not None
    assert table.student_logp is not None
    return (table.teacher_logp - table.student_logp) / table.length.clamp(min=1)


def _scorer(parts: Any, data: Any, policy: Any) -> Callable[..., tuple[Segments, Tensor]]:
    algorithm: Algorithm = parts.algorithm

    class Positive(type(algorithm)):
        """The same method with base advantage 1 everywhere, so that the weight alone is seen."""

        def base_advantages(self, group: EpisodeGroup) -> Tensor:
            return torch.ones(sum(len(episode.turns) for episode in group.episodes))

    positive = Positive(**{f.name: getattr(algorithm, f.name) for f in fields(algorithm)})
    sizes: Sizes = data.sizes
    longest = sizes.max_row if sizes.max_row is not None else parts.plain["engine"].get("max_context")

    def score(pairs: Sequence[tuple[Episode, Episode]]) -> tuple[Segments, Tensor]:
        groups = [EpisodeGroup(pair[PROBE].task, pair) for pair in pairs]
        rows = collate(groups, positive, data.hint, data.renderer.tokenize, longest)
        origin = Origin(0, 0, 0, data.renderer.pad_id, 1)
        buffer = RolloutBuffer(rows, sizes, 1, origin, {}, with_teacher=True)
        scoring.score(buffer, policy, positive, temperature=parts.cfg.temperature, device="cpu")
        return buffer.segments, positive.credit(buffer.segments, 0)

    return score


def main() -> None:
    """Parse the command line, run and print the report."""
    from sharpo import cli

    parser = argparse.ArgumentParser(
        prog="python -m sharpo.credit_check",
        description="Does the credit fall on the mistake? Plants one needless action in each trajectory of unseen "
        "games and reports how often its segment gets the lowest weight, beside chance, beside the policy's own "
        "log-probability, and with a peer of another game as a control.",
    )
    parser.add_argument("--tasks", type=int, default=120, metavar="N", help="unseen games to play (default: 120)")
    parser.add_argument("--play", choices=("expert", "policy"), default="expert",
                        help="who plays the trajectory with the planted action (default: expert)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the planted actions (default: 0)")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE",
                        help="as for train.py, for example experiment=household_demo engine=hf")  # fmt: skip
    arguments = parser.parse_intermixed_args()

    def run(cfg: Any) -> None:
        found = report(cli.Parts(cfg), arguments.tasks, arguments.play, arguments.seed)
        print(found)  # noqa: T201
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")

    sys.argv = [sys.argv[0], *arguments.overrides]
    cli.main(run)


if __name__ == "__main__":
    main()
