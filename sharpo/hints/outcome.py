"""How the episode itself ended as the hint of the teacher."""

from __future__ import annotations

from sharpo.episode import EpisodeGroup
from sharpo.errors import ConfigError
from sharpo.hints.attempt import Tokenize, Wording, clip, shorten
from sharpo.protocols import Hint


class OutcomeHint:
    """Tells success or failure and the last observation of the very episode (HCAPO, arXiv 2603.08754: hindsight).

    Every episode has an outcome, so there is always a hint. A hint over the budget is shortened by rule: the
    observation loses words from its end; what still does not fit is an empty hint.

    Args:
        max_tokens: budget of the whole hint in tokens.
        wording: ``succeeded``, ``failed`` and ``obs_chars``; see :class:`~sharpo.hints.attempt.Wording`.
    """

    def __init__(self, max_tokens: int = 1024, wording: Wording | None = None) -> None:
        if max_tokens < 1:
            raise ConfigError(f"hint.max_tokens must be >= 1, got {max_tokens}")
        self.max_tokens, self.wording = max_tokens, wording or Wording()

    def build(self, group: EpisodeGroup, member: int, tokenize: Tokenize, room: int | None = None) -> Hint | None:
        """Return the outcome of ``group.episodes[member]``; see :class:`sharpo.protocols.HintBuilder`."""
        episode = group.episodes[member]
        won = episode.outcome.success
        form = self.wording.succeeded if won else self.wording.failed
        words = clip(episode.turns[-1].next_observation, self.wording.obs_chars).split(" ")

        def text(level: int) -> str:
            return form.format(observation=" ".join(words[: len(words) - level]), score=f"{episode.outcome.score:.2f}")

        budget = self.max_tokens if room is None else min(self.max_tokens, room)
        ids, shortened = shorten(text, range(len(words) + 1), budget, tokenize)
        return Hint(ids, "outcome:success" if won else "outcome:failure", shortened)
