"""What happened: Task, Turn, Outcome, Episode, EpisodeGroup. Standard library only, frozen, JSON in and out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Finish = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to do in an environment.

    Args:
        id: unique, stable name, for example ``household/val/17``.
        family: the task family as data (``pick``, ``look`` ...), set by the environment.
        instruction: what the agent is asked to do, in words.
        seed: the environment's own seed for this task.
        payload: what the environment needs to rebuild the task; plain JSON values.
    """

    id: str
    family: str
    instruction: str
    seed: int
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange: the agent read ``prompt_ids``, sampled ``action_ids`` and the environment answered.

    Args:
        prompt_ids: every token the policy saw before it acted, (P,).
        action_ids: every token it sampled, the stop token included when it was sampled, (L,).
        action_logp: log-probability in nats of each sampled token as the engine reported it, (L,);
            empty when the engine has none (scripted and expert play).
        text: the sampled tokens as text, without the stop token.
        action: the environment-facing action, or None when the text held none.
        spans: half-open token ranges inside ``action_ids`` by name: ``action`` (the action itself),
            ``action_with_tags``, ``think``. Missing name = no such part. ``turn`` is implied.
        observation: what the environment showed before the action.
        next_observation: what it answered.
        reward: the environment's reward of this very turn.
        penalty: amount (>= 0) subtracted from this turn's return only (for example an unparsable action).
        finish: ``stop`` when the policy ended its turn, ``length`` when the turn's token budget did.
        hint_at: index in ``prompt_ids`` before which a hint is spliced for the teacher.
        trainable: False for a turn that was executed but must not be trained on (expert noise).
        invalid: True when the text broke the required form, or the environment counts the action as invalid.
    """

    prompt_ids: tuple[int, ...]
    action_ids: tuple[int, ...]
    action_logp: tuple[float, ...]
    text: str
    action: str | None
    spans: Mapping[str, tuple[int, int]]
    observation: str
    next_observation: str
    reward: float
    penalty: float
    finish: Finish
    hint_at: int
    trainable: bool = True
    invalid: bool = False

    def __post_init__(self) -> None:
        if self.action_logp and len(self.action_logp) != len(self.action_ids):
            raise ValueError(
                f"Turn: action_logp has {len(self.action_logp)} entries for {len(self.action_ids)} action_ids"
            )
        for name, (start, stop) in self.spans.items():
            if not 0 <= start <= stop <= len(self.action_ids):
                raise ValueError(f"Turn: span {name}={(start, stop)} lies outside {len(self.action_ids)} action_ids")
        if not 0 <= self.hint_at <= len(self.prompt_ids):
            raise ValueError(f"Turn: hint_at={self.hint_at} lies outside {len(self.prompt_ids)} prompt_ids")
        if self.penalty < 0:
            raise ValueError(f"Turn: penalty must be >= 0, got {self.penalty}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended.

    Args:
        success: the environment's own verdict.
        score: graded result in [0, 1].
        terminated: the task ended by itself.
        truncated: we stopped it (turn limit, token budget, a hung or failed environment).
        reason: one word: ``done``, ``turn_limit``, ``episode_tokens``, ``context_window``, ``env_timeout``,
            ``env_error``.
    """

    success: bool
    score: float
    terminated: bool
    truncated: bool
    reason: str = "done"

    def __post_init__(self) -> None:
        if not 0.0 <= self.score <= 1.0:
            raise ValueError(f"Outcome: score must be in [0, 1], got {self.score}")


@dataclass(frozen=True, slots=True)
class Episode:
    """One play of one task by one policy version: at least one turn."""

    task: Task
    turns: tuple[Turn, ...]
    outcome: Outcome
    policy_version: int
    member: int = 0

    def __post_init__(self) -> None:
        if not self.turns:
            raise ValueError(f"Episode of task {self.task.id!r} has no turns; an episode has at least one")

    @property
    def episode_return(self) -> float:
        """Sum of the environment's rewards, penalties left out."""
        return float(sum(turn.reward for turn in self.turns))

    def to_json(self) -> str:
        """Return the episode as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Episode:
        """Rebuild an episode from :meth:`to_json`."""
        raw = json.loads(text)
        turns = tuple(
            Turn(
                **{
                    **turn,
                    "prompt_ids": tuple(turn["prompt_ids"]),
                    "action_ids": tuple(turn["action_ids"]),
                    "action_logp": tuple(turn["action_logp"]),
                    "spans": {name: (span[0], span[1]) for name, span in turn["spans"].items()},
                }
            )
            for turn in raw["turns"]
        )
        return cls(
            task=Task(**raw["task"]),
            turns=turns,
            outcome=Outcome(**raw["outcome"]),
            policy_version=raw["policy_version"],
            member=raw["member"],
        )


@dataclass(frozen=True, slots=True)
class EpisodeGroup:
    """G >= 2 episodes of one task by one policy version; never split across ranks."""

    task: Task
    episodes: tuple[Episode, ...]

    def __post_init__(self) -> None:
        if len(self.episodes) < 2:
            raise ValueError(
                f"EpisodeGroup of task {self.task.id!r} has {len(self.episodes)} episode(s); group-relative methods "
                "need at least 2: set data.sizes.group_size to 2 or more"
            )
        if {episode.task.id for episode in self.episodes} != {self.task.id}:
            raise ValueError(f"EpisodeGroup of task {self.task.id!r} holds episodes of another task")
        if len({episode.policy_version for episode in self.episodes}) != 1:
            raise ValueError(f"EpisodeGroup of task {self.task.id!r} mixes policy versions")
