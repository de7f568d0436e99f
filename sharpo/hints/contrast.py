"""What only the successful, and what only the failed attempts of a group did, as the hint of the teacher."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import ClassVar

from sharpo.episode import Episode, EpisodeGroup
from sharpo.errors import ConfigError
from sharpo.hints.attempt import Tokenize, Wording, shorten
from sharpo.protocols import Hint


class ContrastHint:
    """Lists what to do, A(won) − A(lost), and what to avoid, A(lost) − A(won) (GRSD, arXiv 2607.28076).

    A is the set of actions of the group's successful or failed episodes, compared as text; each is named once, in the
    order in which the members took it. Only a mixed group has a contrast. A hint over the budget is shortened by rule:
    the longer list loses its last action (of equal ones, AVOID); one of each stays. What still does not fit is an empty
    hint.

    Args:
        do: most actions of DO; 0 = that list is left out.
        avoid: most actions of AVOID; 0 = that list is left out.
        others_only: True = the contrast of the *other* episodes, so that the teacher sees nothing of this one.
        max_tokens: budget of the whole hint in tokens.
        wording: ``do``, ``avoid``, ``item`` and ``closing``; see :class:`~sharpo.hints.attempt.Wording`.

    Example:
        >>> unique(["look", "go to  desk 1", "go to desk 1", "take pen 1"], without={"look"})
        ['go to desk 1', 'take pen 1']
    """

    absent: ClassVar[str] = "no action sets the solved episodes of the group apart from the failed ones"
    """Why there may be none, in words."""

    def __init__(
        self,
        do: int = 12,
        avoid: int = 12,
        others_only: bool = False,
        max_tokens: int = 2048,
        wording: Wording | None = None,
    ) -> None:
        if do < 0 or avoid < 0 or do + avoid == 0:
            raise ConfigError(f"hint.do and hint.avoid must be >= 0 and not both 0, got {do} and {avoid}")
        if max_tokens < 1:
            raise ConfigError(f"hint.max_tokens must be >= 1, got {max_tokens}")
        self.do, self.avoid, self.others_only = do, avoid, others_only
        self.max_tokens, self.wording = max_tokens, wording or Wording()

    def build(self, group: EpisodeGroup, member: int, tokenize: Tokenize, room: int | None = None) -> Hint | None:
        """Return the contrast, None without one; see :class:`sharpo.protocols.HintBuilder`."""
        do, avoid = self.lists(group, member)
        if not do and not avoid:
            return None
        sizes = [(len(do), len(avoid))]
        while (d := sizes[-1][0]) + (a := sizes[-1][1]) > min(1, len(do)) + min(1, len(avoid)):
            shorter_avoid = a > 1 and (a >= d or d <= 1)
            sizes.append((d, a - 1) if shorter_avoid else (d - 1, a))

        def text(level: int) -> str:
            kept, left = sizes[level]
            words, parts = self.wording, []
            for heading, actions in ((words.do, do[:kept]), (words.avoid, avoid[:left])):
                parts += [heading, *(words.item.format(action=action) for action in actions)] if actions else []
            return "".join([*parts, words.closing])

        budget = self.max_tokens if room is None else min(self.max_tokens, room)
        ids, shortened = shorten(text, range(len(sizes)), budget, tokenize)
        return Hint(ids, f"contrast:{len(do)}+{len(avoid)}", shortened)

    def lists(self, group: EpisodeGroup, member: int) -> tuple[list[str], list[str]]:
        """Return the actions of DO and of AVOID for ``group.episodes[member]``; both empty without a contrast."""
        shown = [e for i, e in enumerate(group.episodes) if not (self.others_only and i == member)]
        won = actions(episode for episode in shown if episode.outcome.success)
        lost = actions(episode for episode in shown if not episode.outcome.success)
        if not won or not lost:
            return [], []
        return unique(won, set(unique(lost)))[: self.do], unique(lost, set(unique(won)))[: self.avoid]


def actions(episodes: Iterable[Episode]) -> list[str]:
    """Return every action of some episodes, in order; turns without one are left out."""
    return [turn.action for episode in episodes for turn in episode.turns if turn.action is not None]


def unique(texts: Iterable[str], without: Collection[str] = ()) -> list[str]:
    """Return texts once each in their order, spaces evened out, those of ``without`` left out."""
    return list(dict.fromkeys(text for text in (" ".join(t.split()) for t in texts) if text not in without))
