"""The seams between the parts: RolloutEngine, EnvPool, HintBuilder, and the small values that cross them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sharpo.env import Observed
from sharpo.episode import EpisodeGroup, Finish, Outcome, Task

if TYPE_CHECKING:  # worker processes import these seams and must stay light
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class TurnView:
    """What a scripted or expert engine may look at instead of tokens; a language-model engine ignores it."""

    task: Task
    member: int
    turn: int
    observed: Observed
    hinted: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One generation: token ids in.

    Args:
        id: chosen by the caller, unique among requests in flight.
        prompt_ids: the prompt, (P,).
        max_tokens: budget of this turn.
        temperature: 0 is greedy.
        seed: this request's own sampling seed.
        stop_ids: sampling ends after any of these tokens, which is then the last action token.
        view: for engines that do not read tokens.
    """

    id: int
    prompt_ids: tuple[int, ...]
    max_tokens: int
    temperature: float
    seed: int
    stop_ids: tuple[int, ...]
    view: TurnView


@dataclass(frozen=True, slots=True)
class Completion:
    """One finished generation: token ids out, the stop token included when it was sampled.

    ``logp`` is the log-probability in nats of each sampled token *at the request's temperature*; empty when the
    engine has none. ``trainable`` False: execute, but do not train on it.
    """

    id: int
    token_ids: tuple[int, ...]
    logp: tuple[float, ...]
    finish: Finish
    trainable: bool = True


@runtime_checkable
class RolloutEngine(Protocol):
    """Generates with one version of the weights."""

    version: int
    """Version of the weights inside; -1 before the first publish. Engines without weights take any version."""
    max_context: int | None
    """Most tokens of prompt plus generation; None = no limit."""
    reports_logp: bool
    informed: bool | None
    """Its oracle may use what the agent cannot see, in every episode and not in hinted ones alone; None = it never asks
    an oracle."""

    def submit(self, request: Request) -> None:
        """Admit a request; raises when ``prompt + max_tokens`` exceeds ``max_context``."""
        ...

    def poll(self) -> list[Completion]:
        """Do one unit of work and return what finished; [] only when there is more to do or nothing in flight."""
        ...

    def load_weights(self, version: int, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Take new weights (Hugging Face names, full tensors); the same version twice is a no-op."""
        ...

    def score(self, prompt_ids: Sequence[int], action_ids: Sequence[int], temperature: float) -> list[float]:
        """Return log p(action token) in nats under the weights inside, at a temperature; no sampling."""
        ...

    def close(self) -> None:
        """Release everything; idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class EnvEvent:
    """One environment's answer. ``failure`` is set (``env_timeout`` or ``env_error``) when it hung, raised or died."""

    slot: int
    observed: Observed
    reward: float = 0.0
    penalty: float = 0.0
    terminated: bool = False
    truncated: bool = False
    outcome: Outcome | None = None
    failure: str | None = None
    message: str = ""
    invalid: bool = False


class EnvPool(Protocol):
    """Many environments by slot number, stepped off the main thread; a hung or dead one fails alone."""

    def reset(self, slot: int, task: Task, *, informed_oracle: bool | None = False) -> None:
        """Begin a task in a slot; its event arrives through :meth:`poll`. None = nobody asks the oracle."""
        ...

    def step(self, slot: int, action: str | None) -> None:
        """Apply an action in a slot; its event arrives through :meth:`poll`."""
        ...

    def poll(self, timeout_s: float) -> list[EnvEvent]:
        """Return the answers that are there; wait up to ``timeout_s`` for the first."""
        ...

    def release(self, slot: int) -> None:
        """Say that a slot's episode is over."""
        ...

    def close(self) -> None:
        """Stop every worker; idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Hint:
    """What the teacher sees besides the student's context.

    Args:
        ids: token ids to splice, (H,); none = there was something to show and no rule made it fit.
        source: where it came from, for example ``peer:3``.
        shortened: True when a rule cut it to fit the budget.
    """

    ids: tuple[int, ...]
    source: str
    shortened: bool = False


class HintBuilder(Protocol):
    """Builds the hint of one episode of a group, or None (counted, and then the episode is trained without)."""

    def build(
        self, group: EpisodeGroup, member: int, tokenize: Callable[[str], list[int]], room: int | None = None
    ) -> Hint | None:
        """Return the hint for ``group.episodes[member]`` in at most ``room`` tokens; None = nothing to show."""
        ...
