"""An engine that lets one episode of each task err once, in a known turn."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from torch import Tensor

from sharpo.errors import DataError
from sharpo.protocols import Completion, Request, RolloutEngine
from sharpo.seeding import derive

PEER, PROBE = 0, 1
EARLY = 4  # the mistake is planted in one of the first four turns: no household task is done in fewer


class Planter:
    """A rollout engine around two others: member 0 is the peer, member 1 errs once, in a turn drawn from its task.

    Args:
        peer: plays member 0.
        probe: plays member 1, except for the planted turn.
        encode: an action's text to ids (``Renderer.action_ids``).
        seed: of the planted turn and action.
    """

    reports_logp = False
    informed: bool | None = False

    def __init__(
        self, peer: RolloutEngine, probe: RolloutEngine, encode: Callable[[str], list[int]], seed: int
    ) -> None:
        self.peer, self.probe, self.encode, self.seed = peer, probe, encode, seed
        self.version = 0
        self.max_context = probe.max_context
        self._planted: list[Completion] = []

    def turn(self, task_id: str) -> int:
        """Return the turn in which the probe of a task errs."""
        return derive(self.seed, "plant", task_id) % EARLY

    def submit(self, request: Request) -> None:
        """Pass a request on, or answer it with a random admissible action that the oracle would not take."""
        view = request.view
        if view.member == PROBE and view.turn == self.turn(view.task.id):
            useless = sorted(set(view.observed.admissible) - {view.observed.oracle})
            if not useless:
                raise DataError(f"credit_check: the environment of {view.task.id} lists no other action to plant")
            action = random.Random(request.seed).choice(useless)  # noqa: S311
            self._planted.append(Completion(request.id, tuple(self.encode(action)), (), "stop"))
            return
        (self.peer if view.member == PEER else self.probe).submit(request)

    def poll(self) -> list[Completion]:
        """Return what finished in either engine."""
        done, self._planted = self._planted, []
        done += self.peer.poll()
        return done if self.probe is self.peer else done + self.probe.poll()

    def load_weights(self, version: int, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Take no weights: both engines have theirs."""
        del version, named_tensors

    def score(self, prompt_ids: Sequence[int], action_ids: Sequence[int], temperature: float) -> list[float]:
        """Score with the probe's engine."""
        return self.probe.score(prompt_ids, action_ids, temperature)

    def close(self) -> None:
        """Close both engines."""
        self.peer.close()
        self.probe.close()
