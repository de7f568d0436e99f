"""A successful peer's attempt at the same task as the hint of the teacher."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Literal

from sharpo.episode import Episode, EpisodeGroup, Turn
from sharpo.errors import ConfigError
from sharpo.hints.attempt import Wording, clip, middle_out
from sharpo.protocols import Hint
from sharpo.seeding import derive

Pick = Literal["first", "shortest", "random"]
Render = Literal["obs_action", "actions_only"]


class PeerHint:
    """Shows the steps of a successful other rollout of the group (SHARPO, arXiv 2610.00838: the peer context).

    A text over the budget is shortened by rule: observations are dropped from the middle outwards, then steps from the
    middle outwards; first and last step always stay. What still does not fit is no hint.

    Args:
        pick: ``first`` successful other rollout in member order, the ``shortest`` in turns, or a ``random`` one.
        render: ``obs_action`` or ``actions_only``.
        obs_chars: observations longer than this are cut at a word; None = never.
        max_tokens: budget of the whole hint in tokens.
        wording: the sentences; see :class:`~sharpo.hints.attempt.Wording`.
        seed: of the random pick.
    """

    def __init__(
        self,
        pick: Pick = "first",
        render: Render = "obs_action",
        obs_chars: int | None = 200,
        max_tokens: int = 4096,
        wording: Wording | None = None,
        seed: int = 0,
    ) -> None:
        if pick not in ("first", "shortest", "random"):
            raise ConfigError(f"hint.pick must be 'first', 'shortest' or 'random', got {pick!r}")
        if render not in ("obs_action", "actions_only"):
            raise ConfigError(f"hint.render must be 'obs_action' or 'actions_only', got {render!r}")
        if obs_chars is not None and obs_chars < 1:
            raise ConfigError(f"hint.obs_chars must be >= 1 or null, got {obs_chars}")
        if max_tokens < 1:
            raise ConfigError(f"hint.max_tokens must be >= 1, got {max_tokens}")
        self.pick, self.render, self.obs_chars = pick, render, obs_chars
        self.max_tokens, self.seed = max_tokens, seed
        self.wording = wording or Wording()
        self._group: EpisodeGroup | None = None
        self._built: dict[int, Hint | None] = {}

    def build(self, group: EpisodeGroup, member: int, tokenize: Callable[[str], list[int]]) -> Hint | None:
        """Return the hint for ``group.episodes[member]``; None without a successful peer or when none fits."""
        peer = self.peer(group, member)
        if peer is None:
            return None
        if self._group is not group:
            self._group, self._built = group, {}
        if peer not in self._built:
            self._built[peer] = self._of(group.episodes[peer], tokenize)
        return self._built[peer]

    def _of(self, episode: Episode, tokenize: Callable[[str], list[int]]) -> Hint | None:
        turns = [turn for turn in episode.turns if turn.action is not None]
        if not turns:
            return None
        order = middle_out(len(turns))
        first = 0 if self.render == "obs_action" else len(turns)
        levels = range(first, len(turns) + max(0, len(turns) - 2) + 1)

        def ids(level: int) -> list[int]:
            return tokenize(self._text(turns, order, level))

        whole = ids(first)
        if len(whole) <= self.max_tokens:
            return Hint(tuple(whole), f"peer:{episode.member}")
        at = bisect_left(levels, True, key=lambda level: len(ids(level)) <= self.max_tokens)
        return None if at == len(levels) else Hint(tuple(ids(levels[at])), f"peer:{episode.member}", shortened=True)

    def peer(self, group: EpisodeGroup, member: int) -> int | None:
        """Return the index of the chosen peer in ``group.episodes``, or None."""
        able = [i for i, episode in enumerate(group.episodes) if i != member and episode.outcome.success]
        if not able:
            return None
        if self.pick == "first":
            return able[0]
        if self.pick == "shortest":
            return min(able, key=lambda i: len(group.episodes[i].turns))
        learner: Episode = group.episodes[member]
        return able[derive(self.seed, "peer", group.task.id, learner.policy_version, learner.member) % len(able)]

    def _text(self, turns: list[Turn], order: list[int], level: int) -> str:
        """Return the attempt with ``level`` things left out: first observations, then steps, from the middle."""
        bare = set(order[:level])
        gone = set(order[: max(0, level - len(turns))])
        words = self.wording
        parts = [words.heading]
        for n, turn in enumerate(turns):
            if n in gone:
                if n - 1 not in gone:
                    parts.append(words.omitted.format(count=len(gone)))
                continue
            form = words.step_action if n in bare else words.step
            parts.append(
                form.format(
                    n=n + 1,
                    action=turn.action,
                    observation=clip(turn.observation, self.obs_chars),
                    result=clip(turn.next_observation, self.obs_chars),
                )
            )
        return "".join([*parts, words.closing])
