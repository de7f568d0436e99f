"""A successful peer's attempt at the same task as the hint of the teacher."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, get_args

from sharpo.episode import Episode, EpisodeGroup, Turn
from sharpo.errors import ConfigError
from sharpo.hints.attempt import Tokenize, Wording, clip, middle_out, shorten
from sharpo.hints.memory import Memory
from sharpo.hints.skill import SkillHint
from sharpo.protocols import Hint
from sharpo.ranges import Count, refuse_unread
from sharpo.seeding import derive

Pick = Literal["first", "shortest", "random", "closest_obs", "all_concat"]
Render = Literal["obs_action", "actions_only", "full"]
Fallback = Literal["none", "outcome_label", "replay_buffer", "skills"]


class PeerHint:
    """Shows the steps of a successful other rollout of the group (SHARPO, arXiv 2610.00838: the peer context).

    A text over the budget is shortened by rule: observations are dropped from the middle outwards, then steps from the
    middle outwards; first and last step always stay. What still does not fit is an empty hint.

    Args:
        pick: ``first`` successful other rollout in member order, the ``shortest`` in turns, a ``random`` one, the one
            that saw most of what the learner saw (``closest_obs``: Jaccard index of the observations), or all of them
            one after another (``all_concat``: those after the first that fit whole).
        render: ``obs_action``, ``actions_only``, or ``full``: in place of an action all that the peer wrote.
        max_tokens: budget of the whole hint in tokens.
        wording: the sentences; see :class:`~sharpo.hints.attempt.Wording`.
        seed: of the random pick.
        fallback: without a successful peer: ``none``; ``outcome_label``, a sentence that supposes success;
            ``replay_buffer``, the last successful attempt at this task of an earlier iteration; or ``skills``.
        remember: tasks whose last success is kept for ``replay_buffer``; the oldest goes first.
        skills: whose skill texts; see :class:`~sharpo.hints.skill.SkillHint`.
    """

    absent: ClassVar[str] = "no other episode of the group was solved"
    """Why there may be none, in words."""

    def __init__(
        self,
        pick: Pick = "first",
        render: Render = "obs_action",
        max_tokens: int = 4096,
        wording: Wording | None = None,
        seed: int = 0,
        fallback: Fallback = "none",
        remember: Count = 1024,
        skills: str | None = None,
    ) -> None:
        for name, value, kind in (("pick", pick, Pick), ("render", render, Render), ("fallback", fallback, Fallback)):
            if value not in get_args(kind):
                raise ConfigError(f"hint.{name} must be one of {', '.join(get_args(kind))}; got {value!r}")
        if max_tokens < 1:
            raise ConfigError(f"hint.max_tokens must be >= 1, got {max_tokens}")
        self.pick, self.render, self.fallback = pick, render, fallback
        self.max_tokens, self.seed = max_tokens, seed
        self.wording = wording or Wording()
        self.memory = Memory(remember) if fallback == "replay_buffer" else None
        """Earlier successes; None when they are not asked for."""
        if fallback != "replay_buffer":
            refuse_unread("hint", PeerHint, {"remember": remember}, "fallback=replay_buffer")
        if fallback != "skills":
            refuse_unread("hint", PeerHint, {"skills": skills}, "fallback=skills")
        if fallback == "skills" and skills is None:
            raise ConfigError("hint.fallback=skills needs texts: choose hint=peer_or_skill, or give hint.skills")
        self._skill = SkillHint(skills, "own", max_tokens, wording) if fallback == "skills" and skills else None
        self._group: EpisodeGroup | None = None
        self._built: dict[tuple[tuple[int, ...], int], Hint] = {}
        """Of one group, by its peers and the budget; no peers = the remembered attempt."""

    def build(self, group: EpisodeGroup, member: int, tokenize: Tokenize, room: int | None = None) -> Hint | None:
        """Return the hint for ``group.episodes[member]``; see :class:`sharpo.protocols.HintBuilder`."""
        peers = self.peers(group, member)
        if not peers and self.fallback == "skills":
            assert self._skill is not None
            return self._skill.build(group, member, tokenize, room)
        if not peers and self.fallback == "outcome_label":
            return self._supposed(room, tokenize)
        if not peers and (self.memory is None or self.memory.of(group.task.id) is None):
            return None
        if self._group is not group:
            self._group, self._built = group, {}
        hint = self._once(peers, self.max_tokens, tokenize)
        return hint if room is None or len(hint.ids) <= room else self._once(peers, room, tokenize)

    def _once(self, peers: tuple[int, ...], budget: int, tokenize: Tokenize) -> Hint:
        """Return the hint of these peers in a budget, built once for its group."""
        if (peers, budget) not in self._built:
            assert self._group is not None
            kept = None if self.memory is None or peers else self.memory.of(self._group.task.id)
            if kept is None:
                hint = self._of([self._group.episodes[peer] for peer in peers], budget, tokenize)
            else:
                hint = self._replayed(kept, budget, tokenize)
            self._built[peers, budget] = hint
        return self._built[peers, budget]

    def _replayed(self, kept: Episode, budget: int, tokenize: Tokenize) -> Hint:
        ids, shortened = self._fitted(kept, budget, tokenize)
        return Hint(ids, f"replay:{kept.policy_version}", shortened)

    def chosen(self, group: EpisodeGroup) -> Episode | None:
        """Return the success of a group that is remembered: the shortest for ``pick=shortest``, else the first."""
        able = [e for e in group.episodes if e.outcome.success and any(turn.action is not None for turn in e.turns)]
        if self.pick == "shortest":
            return min(able, key=lambda episode: len(episode.turns), default=None)
        return able[0] if able else None

    def check_families(self, families: Iterable[str]) -> None:
        """Refuse families without a skill text when the skills are the fallback."""
        if self._skill is not None:
            self._skill.check_families(families)

    def peers(self, group: EpisodeGroup, member: int) -> tuple[int, ...]:
        """Return the indices of the chosen peers in ``group.episodes``; none without a successful other rollout."""
        able = tuple(
            i
            for i, episode in enumerate(group.episodes)
            if i != member and episode.outcome.success and any(turn.action is not None for turn in episode.turns)
        )
        if not able or self.pick == "all_concat":
            return able
        if self.pick == "first":
            return able[:1]
        if self.pick == "shortest":
            return (min(able, key=lambda i: len(group.episodes[i].turns)),)
        learner: Episode = group.episodes[member]
        if self.pick == "closest_obs":
            return (max(able, key=lambda i: likeness(learner, group.episodes[i])),)
        place = derive(self.seed, "peer", group.task.id, learner.policy_version, learner.member)
        return (able[place % len(able)],)

    def _supposed(self, room: int | None, tokenize: Tokenize) -> Hint:
        ids = tuple(tokenize(self.wording.supposed))
        budget = self.max_tokens if room is None else min(self.max_tokens, room)
        return Hint(ids if len(ids) <= budget else (), "outcome")

    def _of(self, episodes: list[Episode], budget: int, tokenize: Tokenize) -> Hint:
        """Return the first attempt, shortened if it must be, and those of the others that then fit whole."""
        ids, shortened = self._fitted(episodes[0], budget, tokenize)
        shown = [episodes[0].member]
        for other in episodes[1:] if ids else ():
            more, cut = self._fitted(other, budget - len(ids), tokenize)
            if cut or not more:
                shortened = True
            else:
                ids, shown = ids + more, [*shown, other.member]
        return Hint(ids, "peer:" + "+".join(map(str, shown)), shortened)

    def _fitted(self, episode: Episode, budget: int, tokenize: Tokenize) -> tuple[tuple[int, ...], bool]:
        """Return an attempt's ids within the budget, () when it cannot be shortened that far, and whether it was."""
        turns = [turn for turn in episode.turns if turn.action is not None]
        order = middle_out(len(turns))
        first = len(turns) if self.render == "actions_only" else 0
        levels = range(first, len(turns) + max(0, len(turns) - 2) + 1)

        return shorten(lambda level: self._text(turns, order, level), levels, budget, tokenize)

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
                    action=turn.text.strip() if self.render == "full" else turn.action,
                    observation=clip(turn.observation, words.obs_chars),
                    result=clip(turn.next_observation, words.obs_chars),
                )
            )
        return "".join([*parts, words.closing])


def likeness(a: Episode, b: Episode) -> float:
    """Return how much two attempts saw of the same: |A ∩ B| / |A ∪ B| of their sets of observations, in [0, 1]."""
    seen, other = ({turn.observation for turn in episode.turns} for episode in (a, b))
    return len(seen & other) / len(seen | other)
