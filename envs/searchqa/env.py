"""The question-answering environment: search, read, search again, answer; exact match is the reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

from sharpo.envs.searchqa import protocols, questions
from sharpo.envs.searchqa.parse import is_answer, query_of
from sharpo.envs.searchqa.protocols import Protocol
from sharpo.envs.searchqa.questions import Question
from sharpo.envs.searchqa.retriever import Bm25Retriever, Passage, RetrievalError, Retriever
from sharpo.envs.searchqa.reward import contains, exact_match, last_answer

from sharpo.env import ActionFormat, Answer, Observed, ParsedAction, Split, TextEnv
from sharpo.episode import Outcome, Task
from sharpo.errors import ConfigError
from sharpo.seeding import derive

SearchErrors = Literal["raise", "show"]
UNKNOWN = "<answer>unknown</answer>"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment of an episode: what is needed to go on from it, any number of times.

    Args:
        task: what is played.
        chat: actions and observations so far.
        over: the episode has ended.
        answered: it ended with an answer.
        won: the last answer matched.
        turns: turns taken.
        observed: what was shown last.
        informed: the oracle knows the answer; None = it is not asked.
    """

    task: Task
    chat: str
    over: bool
    answered: bool
    won: bool
    turns: int
    observed: Observed
    informed: bool | None


class SearchQA(TextEnv):
    """Questions answered with a search tool; success is an exact match of the last answer.

    ``<search>...</search>`` is answered with passages, ``<answer>...</answer>`` ends the episode. Nothing is searched
    in the last turn. ``protocol: windowed`` reads and answers as the benchmark family's environment (a fresh prompt
    each turn), ``growing`` as Search-R1 (one growing context, for ``prompt.style: append``; its further generation
    after the last search is a turn here: ``max_turns`` = searches + 1).

    Source: Jin et al. (2025), Search-R1; Feng et al. (2025), GiGPO (its search environment).

    Args:
        train: file or files of training questions (see :func:`sharpo.envs.searchqa.questions.load`); None with ``val``
            None for the built-in sample.
        val: file or files of validation questions; None keeps every eighth training question for it.
        retriever: what answers searches; None for BM25 over the built-in passages.
        protocol: ``windowed`` or ``growing``.
        topk: passages per search.
        max_turns: turns until the episode is truncated.
        action_format: ``plain`` and ``tags`` are the same here (an action carries its own tags, a text without one is
            unparsable); ``benchmark`` executes the empty action instead.
        invalid_penalty: subtracted from the return of a turn whose text broke the required form.
        reward: reward of a correct answer.
        observation_chars: longer answers of the search tool are cut here; None = never.
        search_errors: ``raise`` ends the episode as failed, and it is counted; ``show`` tells the agent, as the
            benchmark family does.

    Raises:
        ConfigError: a setting is unknown or out of range.

    Example:
        >>> env = SearchQA()
        >>> text, info = env.reset(options={"task": env.task("val", 0)})
        >>> text
        'how high is mount terrik?'
        >>> env.step("<search>Mount Terrik</search>")[0].startswith('<information>{"result": "Doc 1: ')
        True
        >>> env.step("<answer>2,318 Metres</answer>")[1:4]
        (1.0, True, False)
    """

    families: ClassVar[tuple[str, ...]] = questions.SOURCES

    def __init__(
        self,
        train: str | Sequence[str] | None = None,
        val: str | Sequence[str] | None = None,
        retriever: Retriever | None = None,
        protocol: Protocol = "windowed",
        topk: int = 3,
        max_turns: int = 4,
        action_format: ActionFormat = "tags",
        invalid_penalty: float = 0.0,
        reward: float = 1.0,
        observation_chars: int | None = None,
        search_errors: SearchErrors = "raise",
    ) -> None:
        super().__init__(max_turns, action_format, invalid_penalty)
        for name, value, known in (
            ("protocol", protocol, get_args(Protocol)),
            ("search_errors", search_errors, get_args(SearchErrors)),
        ):
            if value not in known:
                raise ConfigError(f"env.{name} must be one of {', '.join(known)}; got {value!r}")
        if topk < 1:
            raise ConfigError(f"env.topk must be >= 1, got {topk}")
        if reward <= 0:
            raise ConfigError(f"env.reward must be above 0, got {reward}: it is what a correct answer earns")
        if observation_chars is not None and observation_chars < 1:
            raise ConfigError(f"env.observation_chars must be >= 1 or null, got {observation_chars}")
        if train is None and val is not None:
            raise ConfigError(f"env.val={val} without env.train: give both, or env.train alone")
        sample = questions.sample()
        given = (str(sample / "train.jsonl"), str(sample / "val.jsonl")) if train is None else (train, val)
        self._files = questions.as_files(given[0]), questions.as_files(given[1])
        self.retriever = Bm25Retriever() if retriever is None else retriever
        self.protocol: Protocol = protocol
        self.topk, self.reward, self.search_errors = topk, reward, search_errors
        self.observation_chars = observation_chars
        self._splits: dict[str, tuple[Question, ...]] = {}
        self._chat, self._over, self._answered, self._won = "", False, False, False
        self._informed: bool | None = False

    # -- tasks -----------------------------------------------------------------------------------------------------
    def num_tasks(self, split: Split) -> int:
        """Return how many questions a split has."""
        return len(self._questions(split))

    def task(self, split: Split, index: int) -> Task:
        """Return question ``index`` of a split, in the files' order; its family is its data source."""
        known = self._questions(split)
        if not 0 <= index < len(known):
            raise ConfigError(f"env.task: split {split!r} has {len(known)} questions, so there is no question {index}")
        question = known[index]
        name = f"searchqa/{split}/{question.source}/{question.id}"
        return Task(name, question.source, question.text, derive(0, name), {"answers": list(question.answers)})

    def _questions(self, split: Split) -> tuple[Question, ...]:
        self.check_split(split)
        if split not in self._splits:
            train, val = self._files
            if split == "val" and val:
                found = questions.load(val)
            else:
                found = questions.load(train)
                if not val:
                    found = tuple(q for q in found if questions.held_out(q) == (split == "val"))
            if not found:
                raise ConfigError(f"env: no question of {', '.join(train)} is left for {split!r}; set env.val")
            self._splits[split] = found
        return self._splits[split]

    # -- play ------------------------------------------------------------------------------------------------------
    def parse(self, text: str) -> ParsedAction | None:
        """Find the search or the answer in the model's text; without one None, or an empty action (``benchmark``)."""
        found = protocols.read(self.protocol, text)
        if found is None or (not found.action and self.action_format != "benchmark"):
            return ParsedAction("", {}, False, self.invalid_penalty) if self.action_format == "benchmark" else None
        return found if found.valid else replace(found, penalty=self.invalid_penalty)

    def _reset(self, task: Task, *, informed_oracle: bool) -> Observed:
        self._chat, self._over, self._answered, self._won = "", False, False, False
        self._informed = informed_oracle if self.asks_oracle else None
        return Observed(task.instruction, oracle=self._advice(()))

    def _step(self, action: str) -> Answer:
        if self._over:
            return Answer(self._observed, done=self._answered)
        self._chat += action
        query = query_of(action)
        self._answered = is_answer(action)
        if self._answered or self._turns >= self.max_turns:
            self._over, self._won = True, self._verdict()
            return Answer(Observed(""), self.reward * self._won, self._answered, self._info_of(action, None))
        text, passages = self._search(query) if query else ("", ())
        self._chat += text
        return Answer(Observed(text, oracle=self._advice(passages)), info=self._info_of(action, query))

    def _search(self, query: str) -> tuple[str, Sequence[Passage]]:
        passages: Sequence[Passage] = ()
        try:
            passages = self.retriever.search([query], self.topk)[0]
            text = protocols.shown(self.protocol, passages)
        except RetrievalError as error:
            if self.search_errors == "raise":
                raise
            text = protocols.failed(self.protocol, str(error))
        return text if self.observation_chars is None else text[: self.observation_chars], passages

    def _verdict(self) -> bool:
        """Exact match of the last answer in actions and observations: one in a passage would count, as published."""
        assert self.current_task is not None
        said = last_answer(self._chat)
        return said is not None and exact_match(said, self.current_task.payload["answers"])

    def _info_of(self, action: str, query: str | None) -> dict[str, object]:
        assert self.current_task is not None
        return {
            "won": self._won,
            "data_source": self.current_task.family,
            "tool_calling": query is not None,
            "tool_input": query,
            "postprocessed_action": action,
            "invalid": not (action and (is_answer(action) or query_of(action) is not None)),
        }

    def _advice(self, passages: Sequence[Passage]) -> str | None:
        """Search the question, then answer: the informed oracle always, the other one when a passage holds it."""
        if self._informed is None:
            return None
        assert self.current_task is not None
        answers = self.current_task.payload["answers"]
        asked = "<search>" in self._chat
        last = self._turns >= self.max_turns - 1
        if (asked or last) and (self._informed or any(contains(p.contents, answers) for p in passages)):
            return f"<answer>{answers[0]}</answer>"
        if asked or last:
            return UNKNOWN
        return f"<search>{self.current_task.instruction.rstrip('?')}</search>"

    def outcome(self) -> Outcome:
        """Return the verdict so far: success and score are the exact match alone."""
        truncated = not self._answered and self._turns >= self.max_turns
        reason = "turn_limit" if truncated else "done"
        return Outcome(self._won, float(self._won), self._answered, truncated, reason)

    # -- moments ---------------------------------------------------------------------------------------------------
    def snapshot(self) -> Snapshot:
        """Return this moment of the episode.

        Raises:
            RuntimeError: before the first reset.
        """
        if self.current_task is None:
            raise RuntimeError(f"{type(self).__name__}.snapshot was called before reset")
        flags = self._over, self._answered, self._won
        return Snapshot(self.current_task, self._chat, *flags, self._turns, self._observed, self._informed)

    def restore(self, moment: Snapshot) -> None:
        """Go to a moment of this or of another environment's episode, and play on from there."""
        self.current_task, self._turns, self._observed = moment.task, moment.turns, moment.observed
        self._chat, self._over, self._answered, self._won = moment.chat, moment.over, moment.answered, moment.won
        self._informed, self.asks_oracle = moment.informed, moment.informed is not None
