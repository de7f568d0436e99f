"""An engine that plays the environment's oracle in the agent's own format: data for imitation."""

from __future__ import annotations

import random
import re

from sharpo.engine.scripted import Encode, TextEngine
from sharpo.errors import ConfigError, DataError
from sharpo.protocols import Request
from sharpo.ranges import Count, Share, checked

_BLANK = re.compile(r"<[^<>]+>")  # `search[<your query>]`: words are missing


class ExpertEngine(TextEngine):
    """Plays the oracle's next action, or with probability ``noise`` a random admissible one without a blank to fill.

    A noisy action of an episode without a hint keeps its label (it is imitated, which makes a competent but noisy
    start); in a hinted episode it is executed and not trained on. A slip is never trained on: it leads where mistakes
    lead, and the expert's next actions show the way back.

    Args:
        noise: probability of a random admissible action in a turn, in [0, 1].
        informed: the oracle may use what the agent cannot see in every episode; else only in hinted ones.
        slips: probability of a slip, in [0, 1 - noise]: an admissible action whose last two words (the thing it is
            done to or with) are those of another one, so that most slips are impossible.
        encode: see :class:`~sharpo.engine.scripted.TextEngine`.
        max_context: see :class:`~sharpo.engine.scripted.TextEngine`.

    Raises:
        ConfigError: for a noise or slips out of range.
        DataError: when the environment gives no oracle, or no admissible actions while ``noise`` or
            ``slips`` > 0.
    """

    @checked("engine")
    def __init__(
        self,
        noise: Share = 0.0,
        encode: Encode | None = None,
        max_context: Count | None = None,
        slips: Share = 0.0,
        informed: bool = False,
    ) -> None:
        super().__init__(encode, max_context)
        if not 0.0 <= slips <= 1.0 - noise:
            raise ConfigError(f"engine.slips must be in [0, 1 - noise = {1.0 - noise:g}], got {slips}")
        self.noise, self.slips = noise, slips
        self.informed: bool | None = informed

    def act(self, request: Request) -> tuple[str, bool]:
        """Return the oracle's action, or a noisy one drawn by the request's seed."""
        view = request.view
        if view.observed.oracle is None:
            raise DataError(f"engine=expert: the environment of {view.task.id} has no oracle to play")
        draw = random.Random(request.seed)  # noqa: S311
        chance = draw.random() if self.noise + self.slips > 0.0 else 1.0
        if chance >= self.noise + self.slips:
            return view.observed.oracle, True
        choices = [action for action in view.observed.admissible if action != "help" and not _BLANK.search(action)]
        if not choices:
            raise DataError(f"engine.noise={self.noise}: the environment of {view.task.id} lists no actions")
        action = draw.choice(choices)
        if chance < self.noise:
            return action, not view.hinted
        things = [words[-2:] for words in map(str.split, choices) if len(words) > 2]
        words = action.split()
        return " ".join([*words[:-2], *draw.choice(things)]) if things and len(words) > 2 else action, False
