"""An engine that plays the environment's oracle in the agent's own format: data for imitation."""

from __future__ import annotations

import random

from sharpo.engine.scripted import Encode, TextEngine
from sharpo.errors import ConfigError, DataError
from sharpo.protocols import Request


class ExpertEngine(TextEngine):
    """Plays the oracle's next action, or with probability ``noise`` a random admissible one.

    A noisy action of an episode without a hint keeps its label (it is imitated, which makes a competent but noisy
    start); in a hinted episode it is executed and not trained on.

    Args:
        noise: probability of a random admissible action in a turn, in [0, 1].
        encode: see :class:`~sharpo.engine.scripted.TextEngine`.
        max_context: see :class:`~sharpo.engine.scripted.TextEngine`.

    Raises:
        ConfigError: for a noise outside [0, 1].
        DataError: when the environment gives no oracle, or no admissible actions while ``noise`` > 0.
    """

    def __init__(self, noise: float = 0.0, encode: Encode | None = None, max_context: int | None = None) -> None:
        super().__init__(encode, max_context)
        if not 0.0 <= noise <= 1.0:
            raise ConfigError(f"engine.noise must be in [0, 1], got {noise}")
        self.noise = noise

    def act(self, request: Request) -> tuple[str, bool]:
        """Return the oracle's action, or a noisy one drawn by the request's seed."""
        view = request.view
        if view.observed.oracle is None:
            raise DataError(f"engine=expert: the environment of {view.task.id} has no oracle to play")
        draw = random.Random(request.seed)  # noqa: S311
        if self.noise > 0.0 and draw.random() < self.noise:
            choices = [action for action in view.observed.admissible if action != "help"]
            if not choices:
                raise DataError(f"engine.noise={self.noise}: the environment of {view.task.id} lists no actions")
            return draw.choice(choices), not view.hinted
        return view.observed.oracle, True
