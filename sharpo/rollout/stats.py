"""Counts and seconds of a collection; sums over ranks and the metrics that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

REASONS = ("turn_limit", "episode_tokens", "context_window", "env_timeout", "env_error")
Sum = Callable[[Sequence[float]], Sequence[float]]


@dataclass
class CollectStats:
    """What a collection did; plain sums, so that ranks add up.

    Args:
        episodes: finished episodes that were kept or dropped with their group.
        successes: of these, how many succeeded.
        reward: sum of their returns.
        turns: turns played.
        invalid: turns whose text held no valid action.
        tokens: sampled tokens.
        prompt_tokens: tokens of all prompts.
        cut_prompts: prompts that lost their beginning.
        cut_observations: observations that lost their end.
        retries: environments begun a second time after a failed start.
        lost_episodes: plays without a single turn.
        lost_groups: groups left out because a member was lost.
        seconds_engine: in the engine.
        seconds_env: waiting for environments.
        seconds_render: rendering and parsing.
        seconds_total: wall clock.
        truncated: episodes stopped by us, by reason.
        families: successes and episodes by family.
    """

    episodes: int = 0
    successes: int = 0
    reward: float = 0.0
    turns: int = 0
    invalid: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    cut_prompts: int = 0
    cut_observations: int = 0
    retries: int = 0
    lost_episodes: int = 0
    lost_groups: int = 0
    seconds_engine: float = 0.0
    seconds_env: float = 0.0
    seconds_render: float = 0.0
    seconds_total: float = 0.0
    truncated: dict[str, int] = field(default_factory=dict)
    families: dict[str, tuple[int, int]] = field(default_factory=dict)

    def metrics(self, reduce: Sum | None = None, world: int = 1) -> dict[str, float]:
        """Return metrics over all ranks: shares, means per episode, counts; tokens and seconds are means per rank.

        Args:
            reduce: adds a list of numbers over ranks; None = one process.
            world: number of ranks.
        """
        names = [name for name in self.__dataclass_fields__ if name not in ("truncated", "families")]
        local = [float(getattr(self, name)) for name in names]
        local += [float(self.truncated.get(reason, 0)) for reason in REASONS]
        total = list(reduce(local)) if reduce else local
        sums = dict(zip(names, total[: len(names)], strict=True))
        per_episode, seconds = max(sums["episodes"], 1.0), sums["seconds_total"] / world
        out = {
            "success": sums["successes"] / per_episode,
            "reward": sums["reward"] / per_episode,
            "turns": sums["turns"] / per_episode,
            "episodes": sums["episodes"],
            "generated_tokens": sums["tokens"] / world,
            "prompt_tokens": sums["prompt_tokens"] / world,
            "tokens_per_s": sums["tokens"] / seconds if seconds > 0 else 0.0,
            "invalid_share": sums["invalid"] / max(sums["turns"], 1.0),
            "cut_prompts": sums["cut_prompts"],
            "cut_observations": sums["cut_observations"],
            "retries": sums["retries"],
            "lost_episodes": sums["lost_episodes"],
            "lost_groups": sums["lost_groups"],
        }
        for part in ("engine", "env", "render", "total"):
            out[f"{part}_s"] = sums[f"seconds_{part}"] / world
        for reason, count in zip(REASONS, total[len(names) :], strict=True):
            out[f"truncated_{reason}"] = count
        return out


def collate_metrics(hints: Mapping[str, float], groups: Mapping[str, float], reduce: Sum) -> dict[str, float]:
    """Return shares of the episodes that wanted a hint, mean hint tokens, and what became of the groups.

    Args:
        hints: ``Collated.hints`` of this rank.
        groups: ``Collated.groups`` of this rank.
        reduce: adds a list of numbers over ranks.

    Returns:
        Metrics by name, over all ranks; NaN where no group has data.
    """
    names = [*hints, *(f"group:{name}" for name in groups)]
    total = dict(zip(names, reduce([*hints.values(), *groups.values()]), strict=True))
    wanted = max(total["wanted"], 1.0)
    out = {
        "hint_coverage": total["built"] / wanted,
        "hint_shortened": total["shortened"] / wanted,
        "hint_too_long": total["too_long"] / wanted,
        "hint_tokens": total["tokens"] / max(total["built"], 1.0),
        "groups_dropped": total["group:dropped"],
    }
    for name in groups:
        if f"{name}/n" in groups:
            known = total[f"group:{name}/n"]
            out[f"group_{name}"] = total[f"group:{name}"] / known if known else float("nan")
    return out
