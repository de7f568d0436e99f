"""Continuous collection of episodes: each environment moves on as soon as its own action is there."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from sharpo.env import ParsedAction
from sharpo.episode import Episode, Outcome, Task, Turn
from sharpo.errors import DataError, EngineError
from sharpo.protocols import Completion, EnvEvent, EnvPool, Request, RolloutEngine, TurnView
from sharpo.rollout.patience import Patience
from sharpo.rollout.play import Budgets, CollectResult, Play
from sharpo.rollout.render import Renderer
from sharpo.rollout.stats import CollectStats
from sharpo.seeding import derive

WAIT_S = 0.5
Parse = Callable[[str], ParsedAction | None]
Progress = Callable[[int, int, int, int, float, float], None]


class Collector:
    """Drives an engine and a pool of environments, with no barrier per turn.

    Args:
        engine: generates with one version of the weights.
        pool: hosts the environments.
        renderer: text to tokens and back.
        parse: finds the action in the model's text (``TextEnv.parse``).
        budgets: see :class:`Budgets`.
    """

    def __init__(
        self, engine: RolloutEngine, pool: EnvPool, renderer: Renderer, parse: Parse, budgets: Budgets | None = None
    ) -> None:
        self.engine, self.pool, self.renderer, self.parse = engine, pool, renderer, parse
        self.budgets = budgets or Budgets()
        limits = [limit for limit in (self.budgets.context, engine.max_context) if limit is not None]
        self._context = min(limits) if limits else None

    def collect(
        self,
        tasks: Sequence[Task],
        members: int,
        *,
        seed: int,
        version: int,
        temperature: float,
        hinted_members: frozenset[int] = frozenset(),
        on_progress: Progress | None = None,
        keep_lost: bool = False,
    ) -> CollectResult:
        """Play every task ``members`` times with weights ``version``.

        The seed of a turn is ``derive(seed, "rollout", version, task.id, member, turn)``; the n-th repetition of a
        task in ``tasks`` counts its members on from ``n * members``.

        Args:
            tasks: one group each.
            members: episodes per group, G.
            seed: the run's seed.
            version: must be the version inside the engine.
            temperature: 0 is greedy.
            hinted_members: members whose expert may use what the agent cannot see.
            on_progress: called with (done, total, turns, tokens, success, reward) after each episode.
            keep_lost: a play without a single turn becomes a failed episode with one empty turn, so that no task
                leaves the count (validation); else its whole group is left out (training). Both are counted.

        Raises:
            EngineError: when the engine holds other weights.
            DataError: when not one group is complete, or no first prompt fits into the window.
        """
        if self.engine.version != version:
            raise EngineError(f"engine holds weights {self.engine.version}, rollouts need {version}: publish first")
        collection = _Collection(self, tasks, members, seed, version, temperature, hinted_members)
        collection.on_progress, collection.keep_lost = on_progress, keep_lost
        return collection.run()

    @property
    def context(self) -> int | None:
        """Most tokens of prompt plus answer."""
        return self._context


class _Collection:
    """The state of one call of :meth:`Collector.collect`."""

    def __init__(
        self,
        owner: Collector,
        tasks: Sequence[Task],
        members: int,
        seed: int,
        version: int,
        temperature: float,
        hinted: frozenset[int],
    ) -> None:
        self.o, self.members, self.seed, self.version = owner, members, seed, version
        self.temperature = temperature
        self.on_progress: Progress | None = None
        self.keep_lost = False
        self.stats = CollectStats()
        self.plays: list[Play] = []
        seen: dict[str, int] = {}
        for group, task in enumerate(tasks):
            base = seen.get(task.id, 0) * members
            seen[task.id] = seen.get(task.id, 0) + 1
            self.plays += [Play(task, group, m, base + m, m in hinted) for m in range(members)]
        self.waiting = deque(self.plays)
        self.free = list(range(min(owner.budgets.concurrency, len(self.plays))))[::-1]
        self.by_slot: dict[int, Play] = {}
        self.in_flight: dict[int, Play] = {}
        self.stepping = self.requests = self.done = self.too_long = 0
        self.message = ""
        self.patience = Patience()

    def run(self) -> CollectResult:
        begun = time.perf_counter()
        while self.done < len(self.plays):
            while self.waiting and self.free:
                self._begin(self.waiting.popleft(), self.free.pop())
            if self.stepping:
                self._hear()
            if self.in_flight:
                start = time.perf_counter()
                completions = self.o.engine.poll()
                took = time.perf_counter() - start
                self.stats.seconds_engine += took
                self.patience.stepped(took)
                for completion in completions:
                    self._on_completion(completion)
        self.stats.seconds_total = time.perf_counter() - begun
        return CollectResult(self._groups(), self.stats)

    def _hear(self) -> None:
        """Take the answers that are there, and those for which the engine's next step can wait."""
        self._take(0.0 if self.in_flight else WAIT_S)
        left = self.patience.limit(self.stepping, len(self.in_flight))
        while self.stepping and left > 0.0:
            left -= self._take(left)
        self.patience.waited(self.stepping)

    def _take(self, timeout_s: float) -> float:
        """Take the answers that are there, or the first within a time, and return the seconds waited."""
        start = time.perf_counter()
        events = self.o.pool.poll(timeout_s)
        waited = time.perf_counter() - start
        self.stats.seconds_env += waited
        for event in events:
            self._on_event(event)
        return waited

    def _begin(self, play: Play, slot: int) -> None:
        play.slot = slot
        self.by_slot[slot] = play
        self.stepping += 1
        informed = self.o.engine.informed
        self.o.pool.reset(slot, play.task, informed_oracle=None if informed is None else play.hinted or informed)

    def _on_event(self, event: EnvEvent) -> None:
        play = self.by_slot[event.slot]
        self.stepping -= 1
        if event.failure is not None:
            self.message = event.message
        if play.pending is not None:
            shown = self.o.renderer.shown(event.observed)
            if shown is not event.observed:
                self.stats.cut_observations += 1
                event = replace(event, observed=shown)
            self._add_turn(play, event)
        elif event.failure is not None and not play.retried:
            play.retried = True
            self.stats.retries += 1
            self.o.pool.release(play.slot)
            self._begin(play, play.slot)
            return
        if event.failure is not None:
            self._finish(play, Outcome(False, 0.0, False, True, event.failure))
            return
        play.observed = event.observed
        if event.terminated or event.truncated:
            reason = "done" if event.terminated else "turn_limit"
            verdict = event.outcome or Outcome(False, 0.0, event.terminated, event.truncated, reason)
            self._finish(play, verdict)
        else:
            self._ask(play, event.outcome)

    def _ask(self, play: Play, verdict: Outcome | None) -> None:
        """Submit the next turn, or end the episode when a budget is spent."""
        start = time.perf_counter()
        prompt = self.o.renderer.prompt(play.task, play.turns, play.observed)
        self.stats.seconds_render += time.perf_counter() - start
        budgets = self.o.budgets
        left = None if budgets.episode_tokens is None else budgets.episode_tokens - play.sampled
        room = None if self.o.context is None else self.o.context - len(prompt.ids)
        for reason, limit in (("episode_tokens", left), ("context_window", room)):
            if limit is not None and limit < 1:
                if reason == "context_window" and not play.turns:
                    self.message = f"the first prompt has {len(prompt.ids)} tokens, the window {self.o.context}"
                score = verdict.score if verdict else 0.0
                self._finish(play, Outcome(bool(verdict and verdict.success), score, False, True, reason))
                return
        play.prompt = prompt
        self.stats.cut_prompts += prompt.cut > 0
        turn = len(play.turns)
        request = Request(
            id=self.requests,
            prompt_ids=prompt.ids,
            max_tokens=min(limit for limit in (budgets.turn_tokens, left, room) if limit is not None),
            temperature=self.temperature,
            seed=derive(self.seed, "rollout", self.version, play.task.id, play.seed_member, turn),
            stop_ids=self.o.renderer.turn_end,
            view=TurnView(play.task, play.member, turn, play.observed, play.hinted),
        )
        self.requests += 1
        self.stats.prompt_tokens += len(prompt.ids)
        self.in_flight[request.id] = play
        self.o.engine.submit(request)

    def _on_completion(self, completion: Completion) -> None:
        play = self.in_flight.pop(completion.id)
        start = time.perf_counter()
        text = self.o.renderer.text(completion.token_ids)
        parsed = self.o.parse(text)
        self.stats.seconds_render += time.perf_counter() - start
        play.pending = (completion, text, parsed)
        play.sampled += len(completion.token_ids)
        self.stepping += 1
        self.o.pool.step(play.slot, None if parsed is None else parsed.action)

    def _add_turn(self, play: Play, event: EnvEvent) -> None:
        assert play.pending is not None
        assert play.prompt is not None
        completion, text, parsed = play.pending
        invalid = event.invalid or parsed is None or not parsed.valid
        play.turns.append(
            Turn(
                prompt_ids=play.prompt.ids,
                action_ids=completion.token_ids,
                action_logp=completion.logp,
                text=text,
                action=None if parsed is None else parsed.action,
                spans=self.o.renderer.spans(completion.token_ids, parsed),
                observation=play.observed.text,
                next_observation=event.observed.text,
                reward=event.reward,
                penalty=event.penalty if parsed is None else max(event.penalty, parsed.penalty),
                finish=completion.finish,
                hint_at=play.prompt.hint_at,
                trainable=completion.trainable,
                invalid=invalid,
            )
        )
        play.pending = None
        self.stats.turns += 1
        self.stats.tokens += len(completion.token_ids)
        self.stats.invalid += invalid

    def _finish(self, play: Play, outcome: Outcome) -> None:
        self.o.pool.release(play.slot)
        del self.by_slot[play.slot]
        self.free.append(play.slot)
        self.done += 1
        if outcome.truncated:
            self.stats.truncated[outcome.reason] = self.stats.truncated.get(outcome.reason, 0) + 1
        if not play.turns:
            self.stats.lost_episodes += 1
            self.too_long += outcome.reason == "context_window"
            if not self.keep_lost:
                return
            play.turns.append(Turn((), (), (), "", None, {}, "", "", 0.0, 0.0, "stop", 0, trainable=False))
        play.episode = Episode(play.task, tuple(play.turns), outcome, self.version, play.member)
        stats = self.stats
        stats.episodes += 1
        stats.successes += outcome.success
        stats.reward += play.episode.episode_return
        won, played = stats.families.get(play.task.family, (0, 0))
        stats.families[play.task.family] = (won + outcome.success, played + 1)
        if self.on_progress is not None:
            success, reward = stats.successes / stats.episodes, stats.reward / stats.episodes
            self.on_progress(self.done, len(self.plays), stats.turns, stats.tokens, success, reward)

    def _groups(self) -> list[list[Episode]]:
        count, members = len(self.plays) // self.members if self.members else 0, self.members
        groups = []
        for g in range(count):
            episodes = [play.episode for play in self.plays[g * members : (g + 1) * members]]
            whole = [episode for episode in episodes if episode is not None]
            if len(whole) == members:
                groups.append(whole)
        self.stats.lost_groups = count - len(groups)
        if count and (not groups or self.too_long == len(self.plays)):
            raise DataError(
                f"not one of {count} groups is complete: {self.stats.lost_episodes} episodes ended before their first "
                f"turn (last message: {self.message}); check the environment, data.budgets.context and the prompt"
            )
        return groups
