"""WebShop as an environment: tasks are goals, an episode ends with a purchase, success is a score of 1."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from sharpo.envs.webshop import oracle, splits, vocabulary
from sharpo.envs.webshop.catalogue import Catalogue, find, opened
from sharpo.envs.webshop.goals import Kind, draw
from sharpo.envs.webshop.pages import BRIEF_PAGE_SIZE, PAGE_SIZE, Observation, Session, clickables, item_names, render
from sharpo.envs.webshop.splits import GoalSplit
from sharpo.envs.webshop.store import Store, parse_action

from sharpo.env import ActionFormat, Answer, Observed, Split, TextEnv
from sharpo.episode import Outcome, Task
from sharpo.errors import ConfigError, DataError
from sharpo.seeding import derive

FAMILIES = ("beauty", "electronics", "fashion", "garden", "grocery")
FIXES = ("options", "search_bar")
ASK = "search[<your query>]"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment of an episode, to go on from in any environment over the same catalogue."""

    task: Task
    session: Session
    query: str | None
    informed: bool
    turns: int
    observed: Observed
    asks_oracle: bool


class WebShop(TextEnv):
    """An online store of text pages (Yao et al. 2022); the original's rules and quirks unless a fix is named.

    Args:
        catalogue: folder that ``python -m sharpo.data webshop`` built; None for ``$WEBSHOP_DATA``, else
            ``~/.cache/sharpo/webshop``.
        observation: ``parts`` (what the page shows after the instruction, in quotes), ``text``, ``text_rich`` or
            ``brief`` (for tiny policies: three products a page, called item 1 to 3, nothing twice, no buttons).
        goals: ``synthetic`` (from attributes and options) or ``human``.
        goal_split: ``index``, ``paper``, ``asin`` (no product in two splits) or ``legacy_workers`` (with its leak).
        attainable_only: leave out goals that even the exact purchase does not meet.
        fixes: ``options`` compares option values by whole words on both sides; ``search_bar`` allows a search only
            where the page has a search bar.
        show_attributes: an item's page leads to its attributes.
        max_turns: turns until the episode is truncated.
        action_format: ``plain``, ``tags`` or ``benchmark``.
        invalid_penalty: subtracted from the return of a turn whose text held no action.
        reward: of a purchase with score 1.
        graded: a purchase earns ``reward`` times its score, instead of nothing below 1.

    Raises:
        ConfigError: a setting is unknown, or the catalogue has too few goals for the split (when tasks are asked for).
        DataError: there is no catalogue (when tasks are asked for).
    """

    families: ClassVar[tuple[str, ...]] = FAMILIES
    splits: ClassVar[tuple[str, ...]] = ("train", "val", "test")
    guess_chars: ClassVar[int] = 20

    def __init__(
        self,
        catalogue: str | None = None,
        observation: Observation = "parts",
        goals: Kind = "synthetic",
        goal_split: GoalSplit = "index",
        attainable_only: bool = False,
        fixes: Sequence[str] = (),
        show_attributes: bool = False,
        max_turns: int = 15,
        action_format: ActionFormat = "tags",
        invalid_penalty: float = 0.0,
        reward: float = 10.0,
        graded: bool = False,
    ) -> None:
        super().__init__(max_turns, action_format, invalid_penalty)
        for name, value, known in (
            ("observation", observation, get_args(Observation)),
            ("goals", goals, get_args(Kind)),
            ("goal_split", goal_split, splits.GOAL_SPLITS),
            *(("fixes", fix, FIXES) for fix in fixes),
        ):
            if value not in known:
                raise ConfigError(f"env.{name} must be among {', '.join(known)}; got {value!r}")
        if reward <= 0:
            raise ConfigError(f"env.reward must be above 0, got {reward}: it is what a full purchase earns")
        self.folder = find(catalogue)
        self.observation: Observation = observation
        self.kind: Kind = goals
        self.goal_split: GoalSplit = goal_split
        self.attainable_only, self.fixes = attainable_only, tuple(fixes)
        self.show_attributes, self.reward, self.graded = show_attributes, reward, graded
        self._store: Store | None = None
        self._session: Session | None = None
        self._query: str | None = None
        self._informed = self._done = False

    # -- tasks -----------------------------------------------------------------------------------------------------
    @property
    def catalogue(self) -> Catalogue:
        """The catalogue, opened once per process and shared."""
        return opened(self.folder)

    @property
    def store(self) -> Store:
        """The shop's rules over the catalogue."""
        if self._store is None:
            found = self.catalogue
            self._store = Store(
                found.shelf, found.search, self.show_attributes, "search_bar" in self.fixes, self._rule,
                BRIEF_PAGE_SIZE if self.observation == "brief" else PAGE_SIZE,
            )  # fmt: skip
        return self._store

    @property
    def _rule(self) -> Any:
        return "fixed" if "options" in self.fixes else "legacy"

    def _places(self, split: Split) -> Any:
        self.check_split(split)
        _ = self.catalogue.search  # a catalogue without its index is found before anything is played
        wanted = self._rule if self.attainable_only else None
        made = splits.split(self.folder, self.kind, self.goal_split, wanted)
        if split not in made:
            raise ConfigError(
                f"split {split!r}: env.goal_split={self.goal_split} has no such split, it has "
                f"{', '.join(sorted(made))}; env.goal_split=paper has one for test"
            )
        return made[split]

    def num_tasks(self, split: Split) -> int:
        """Return how many goals a split has."""
        return len(self._places(split))

    def task(self, split: Split, index: int) -> Task:
        """Return goal ``index`` of a split; its family is the product's category."""
        places = self._places(split)
        if not 0 <= index < len(places):
            raise ConfigError(f"env.task: {split} has {len(places)} goals, so there is no goal {index}")
        return self._task(f"webshop/{split}/{index}", int(places[index]))

    def _task(self, name: str, place: int) -> Task:
        goal = self.catalogue.goal(self.kind, place)
        if goal.category not in self.families:
            raise DataError(
                f"the catalogue in {self.folder} has a product of the category {goal.category!r}; known families: "
                f"{', '.join(self.families)}"
            )
        payload = {"catalogue": self.catalogue.fingerprint, "kind": self.kind, "place": place}
        return Task(name, goal.category, goal.instruction, derive(0, name), payload)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a task as :meth:`TextEnv.reset` does, or goal number ``options["goal_idx"]`` of the shuffled list.

        With ``options["weighted"]`` the number is drawn from ``seed`` by the goals' weights, as the original draws
        without a number.

        Raises:
            ConfigError: there is no such goal, or a weighted draw has no seed.
        """
        number = (options or {}).get("goal_idx")
        weighted = number is None and (options or {}).get("weighted")
        count = len(self.catalogue.table(self.kind))
        if weighted and seed is None:
            raise ConfigError("weighted=True without a seed: give one, as in reset(seed=0, options={'weighted': True})")
        if (weighted or number is not None) and not count:
            raise ConfigError(
                f"env.goals={self.kind}: the catalogue in {self.folder} has no goals of this kind; choose the other "
                "kind, or another env.catalogue"
            )
        if weighted:
            weights = self.catalogue.table(self.kind)["weight"][splits.numbered(count)]
            number = draw(weights.tolist(), random.Random(seed))  # noqa: S311
        if number is not None:
            if not 0 <= number < count:
                raise ConfigError(f"goal_idx={number}: this catalogue has {count} {self.kind} goals")
            task = self._task(f"webshop/goal/{number}", int(splits.numbered(count)[number]))
            options = {**(options or {}), "task": task}
        return super().reset(seed=seed, options=options)

    def lexicon(self) -> tuple[str, ...]:
        """Return the words and phrases that cover every text over a small catalogue, longest first."""
        return vocabulary.words(self.catalogue, self.kind, self.observation == "brief")

    # -- play ------------------------------------------------------------------------------------------------------
    def _reset(self, task: Task, *, informed_oracle: bool) -> Observed:
        try:
            made, kind, place = (task.payload[name] for name in ("catalogue", "kind", "place"))
        except KeyError:
            raise DataError(f"task {task.id} is not a task of WebShop: its payload is {dict(task.payload)}") from None
        if made != self.catalogue.fingerprint:
            raise DataError(
                f"task {task.id} was made from the catalogue {made}, {self.folder} holds {self.catalogue.fingerprint}: "
                "set env.catalogue to the one it was made from"
            )
        goal = self.catalogue.goal(kind, place)
        self._informed, self._done = informed_oracle, False
        self._query = oracle.best_query(self.store, goal) if informed_oracle else None
        return self._observe(self.store.begin(goal))

    def _step(self, action: str) -> Answer:
        assert self._session is not None
        before = self._session
        if self._done:
            return Answer(self._observed, done=True, info={"won": self._won, "changed": False, "score": before.score})
        after = self.store.act(before, self._heard(before, action))
        self._done = after.page == "done"
        observed = self._observe(after) if after is not before else self._observed_again()
        earned = self.reward * (after.score if self.graded else float(after.score == 1.0)) if self._done else 0.0
        info = {"won": self._won, "changed": after is not before, "score": after.score}
        return Answer(observed, earned, self._done, info)

    def _heard(self, session: Session, action: str) -> str:
        """Return a tiny policy's click as the store knows it: no blanks about its text, a product's own name."""
        if self.observation != "brief":
            return action
        name, argument = parse_action(action)
        if name != "click" or argument is None:
            return action
        asins = {shown: asin for asin, shown in item_names(session).items()}
        return f"click[{asins.get(argument.strip(), argument.strip())}]"

    def _observed_again(self) -> Observed:
        assert self._session is not None
        return self._observe(self._session)

    def _observe(self, session: Session) -> Observed:
        self._session = session
        shown = self.store.nodes(session)
        asked = (ASK,) if session.page == "index" else ()
        names = item_names(session) if self.observation == "brief" else {}
        admissible = (*asked, *(f"click[{names.get(text, text)}]" for text in clickables(shown)))
        advice = self._advise(session) if self.asks_oracle else None
        clicked = None if advice is None else advice.removeprefix("click[").removesuffix("]")
        if clicked in names:
            advice = f"click[{names[clicked]}]"
        return Observed(render(session, shown, self.observation), admissible, advice)

    def _advise(self, session: Session) -> str | None:
        if self._informed:
            return oracle.exact_purchase(self.store, session, self._query)
        return oracle.first_hit(session)

    @property
    def _won(self) -> bool:
        return self._done and self._session is not None and self._session.score == 1.0

    def outcome(self) -> Outcome:
        """Return the verdict so far: the score is the purchase's, 0 without one; success is a score of 1."""
        score = self._session.score if self._done and self._session is not None else 0.0
        truncated = not self._done and self._turns >= self.max_turns
        return Outcome(self._won, score, self._done, truncated, "turn_limit" if truncated else "done")

    # -- moments ---------------------------------------------------------------------------------------------------
    def snapshot(self) -> Snapshot:
        """Return this moment of the episode; nothing is copied.

        Raises:
            RuntimeError: before the first reset.
        """
        if self.current_task is None or self._session is None:
            raise RuntimeError("WebShop.snapshot was called before reset")
        return Snapshot(
            self.current_task, self._session, self._query, self._informed, self._turns, self._observed,
            self.asks_oracle,
        )  # fmt: skip

    def restore(self, moment: Snapshot) -> None:
        """Go to a moment of this or of another environment's episode, and play on from there."""
        self.current_task, self._session, self._turns = moment.task, moment.session, moment.turns
        self._query, self._informed, self.asks_oracle = moment.query, moment.informed, moment.asks_oracle
        self._observed, self._done = moment.observed, moment.session.page == "done"
