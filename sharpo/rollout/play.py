"""Limits of a collection, one episode in the making, and what a collection returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from sharpo.env import Observed, ParsedAction
from sharpo.episode import Episode, Task, Turn
from sharpo.errors import ConfigError
from sharpo.protocols import Completion
from sharpo.rollout.render import RenderedPrompt
from sharpo.rollout.stats import CollectStats


@dataclass(frozen=True, slots=True)
class Budgets:
    """Limits of a collection.

    Args:
        turn_tokens: most tokens sampled in one turn.
        episode_tokens: most tokens sampled in all turns of an episode together; None = no limit. Prompt tokens do
            not count: the window bounds them.
        context: most tokens of prompt plus answer; None = the engine's own ``max_context``.
        concurrency: most episodes that run at the same time.
    """

    turn_tokens: int = 512
    episode_tokens: int | None = None
    context: int | None = None
    concurrency: int = 128

    def __post_init__(self) -> None:
        for name in ("turn_tokens", "episode_tokens", "context", "concurrency"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"data.budgets.{name} must be >= 1, got {value}")


@dataclass(frozen=True, slots=True)
class CollectResult:
    """Episodes by group in task order, members in order, and the counts. Groups that lost a member are not there."""

    groups: list[list[Episode]]
    stats: CollectStats


@dataclass
class Play:
    """One episode in the making."""

    task: Task
    group: int
    member: int
    seed_member: int
    hinted: bool
    slot: int = -1
    retried: bool = False
    observed: Observed = field(default_factory=lambda: Observed(""))
    turns: list[Turn] = field(default_factory=list)
    sampled: int = 0
    prompt: RenderedPrompt | None = None
    pending: tuple[Completion, str, ParsedAction | None] | None = None
    episode: Episode | None = None
