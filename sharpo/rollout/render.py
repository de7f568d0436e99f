"""Token ids in, token ids out: prompts from a chat template, spans of what was sampled, the expert's own format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from sharpo.env import ActionFormat, Observed, ParsedAction
from sharpo.episode import Task, Turn
from sharpo.errors import ConfigError, DataError
from sharpo.ranges import Count, Natural, checked, refuse_unread
from sharpo.rollout.prompts import Template
from sharpo.rollout.spans import token_spans

Style = Literal["append", "windowed"]
Place = Literal["before_instructions", "user_top", "assistant_prefix", "before_chat_template"]

_CACHED = 4096
"""Texts and token runs whose ids and text are remembered: games and small models say the same things often."""
_PROBE = ("alpha probe one", "<think>beta probe</think>two", "gamma probe three", "delta four", "epsilon probe five")


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """What the policy reads: token ids (P,), the index before which a hint is spliced, tokens left out in front."""

    ids: tuple[int, ...]
    hint_at: int
    cut: int = 0


class Renderer:
    """Renders prompts with the tokenizer's own chat template and never re-tokenises what the model wrote.

    ``append`` keeps one growing conversation: next prompt = last prompt + last sampled ids + the rest of the closed
    turn + the next user message + the generation prompt. ``windowed`` gives each turn one fresh user message with the
    last ``history`` observation-action pairs.

    Args:
        tokenizer_path: folder with a tokenizer and its chat template.
        style: ``append`` or ``windowed``.
        template: name of the files ``envs/prompts/<template>_first.txt`` (first turn) and ``<template>.txt`` (later).
        history: observation-action pairs shown by ``windowed``.
        action_format: ``plain``, ``tags`` or ``benchmark`` (as tags): how an expert writes its action.
        place: where the teacher's hint is spliced into a prompt (``append``: into the first): ``before_instructions``
            at the template's ``{hint}`` line, ``user_top`` before the user's first word, ``assistant_prefix`` after
            the generation prompt, ``before_chat_template`` before everything.
        most_chars: ``windowed``: a longer message is written again without history; None for no such limit.
        most_tokens: a longer prompt loses its beginning, chat template included, as in the benchmark family; the hint
            of a prompt that lost its place comes first. None for no such limit.
        observation_tokens: what a step shows is cut after so many tokens; None = never.

    Raises:
        ConfigError: when the chat template is missing, rewrites messages, or is not append-only.
    """

    @checked("prompt")
    def __init__(
        self,
        tokenizer_path: str,
        *,
        style: Style,
        template: str,
        history: Natural = 2,
        action_format: ActionFormat = "tags",
        place: Place = "before_instructions",
        most_chars: Count | None = None,
        most_tokens: Count | None = None,
        observation_tokens: Count | None = None,
    ) -> None:
        if style not in ("append", "windowed"):
            raise ConfigError(f"prompt.style must be 'append' or 'windowed', got {style!r}")
        if action_format not in get_args(ActionFormat):
            raise ConfigError(f"prompt.action_format must be 'plain', 'tags' or 'benchmark', got {action_format!r}")
        if place not in get_args(Place):
            raise ConfigError(f"place must be one of {', '.join(get_args(Place))}; got {place!r}")
        if most_chars is not None and style != "windowed":
            raise ConfigError(f"prompt.most_chars={most_chars} needs prompt.style=windowed: leave it out")
        self.style, self.history, self.action_format, self.place = style, history, action_format, place
        self.most_chars, self.most_tokens, self.observation_tokens = most_chars, most_tokens, observation_tokens
        self.first = Template.load(f"{template}_first")
        self.later = Template.load(template)
        if not self.first.hinted or (style == "windowed" and not self.later.hinted):
            raise ConfigError(f"prompt.template={template}: a line {{hint}} must say where a hint is spliced in")
        if "{history}" not in self.later.before + self.later.after:
            shows = f"a prompt.template that shows {{history}}, as {template} does not"
            refuse_unread("prompt", Renderer, {"history": history}, shows)
        self.path = str(tokenizer_path)
        self._tokenizer = _load(self.path)
        self._ids_of = lru_cache(_CACHED)(self._encode_now)
        self._text_of = lru_cache(_CACHED)(self._decode_now)
        self._close, self._suffix = self._read_chat_template()
        close_ids = self._encode(self._close)
        if not close_ids or close_ids[0] not in self._tokenizer.all_special_ids:
            raise ConfigError(
                f"model {self.path}: its chat template closes an assistant turn with {self._close!r}, which does not "
                "begin with a special token; a policy needs one token that ends its turn"
            )
        self._open = self._close.partition(self.decode(close_ids[:1]).strip())[2]
        eos = self._tokenizer.eos_token_id
        self.turn_end: tuple[int, ...] = tuple(dict.fromkeys([close_ids[0], *([] if eos is None else [eos])]))
        """Stop ids; the first is the chat template's own end of turn."""
        pad = self._tokenizer.pad_token_id
        self.pad_id: int = self.turn_end[0] if pad is None else pad

    # -- prompts ---------------------------------------------------------------------------------------------------
    def prompt(self, task: Task, turns: Sequence[Turn], observed: Observed) -> RenderedPrompt:
        """Return the prompt of the turn that follows ``turns``, given what the environment shows now."""
        template = self.later if turns else self.first
        before, after = template.fill(task, turns, observed, self.history)
        if self.most_chars is not None and turns and len(before) + len(after) > self.most_chars:
            before, after = self.first.fill(task, (), observed, 0)
        if not turns or self.style == "windowed":
            return self._without_beginning(self._fresh(before, after))
        last = turns[-1]
        ended = bool(last.action_ids) and last.action_ids[-1] in self.turn_end
        closing = () if ended else self.turn_end[:1]
        bridge = self.tokenize(self._open + (before + after).strip() + self._suffix)
        whole = RenderedPrompt((*last.prompt_ids, *last.action_ids, *closing, *bridge), last.hint_at)
        return self._without_beginning(whole)

    def _without_beginning(self, whole: RenderedPrompt) -> RenderedPrompt:
        over = 0 if self.most_tokens is None else len(whole.ids) - self.most_tokens
        return whole if over <= 0 else RenderedPrompt(whole.ids[over:], max(0, whole.hint_at - over), over)

    def shown(self, observed: Observed) -> Observed:
        """Return what a step shows, cut after ``observation_tokens``; the same object when nothing is cut."""
        if self.observation_tokens is None:
            return observed
        ids = self._encode(observed.text)
        if len(ids) <= self.observation_tokens:
            return observed
        return replace(observed, text=self.decode(ids[: self.observation_tokens]).rstrip("\ufffd"))

    def _fresh(self, before: str, after: str) -> RenderedPrompt:
        content = before + after
        text = self._chat([("user", content)])
        at = text.rfind(content)
        if at < 0:
            raise ConfigError(f"model {self.path}: its chat template rewrites the user's message; it cannot be used")
        places = {
            "before_instructions": at + len(before),
            "user_top": at,
            "assistant_prefix": len(text),
            "before_chat_template": 0,
        }
        cut = places[self.place]
        head = self.tokenize(text[:cut])
        return RenderedPrompt((*head, *self.tokenize(text[cut:])), len(head))

    # -- text and tokens -------------------------------------------------------------------------------------------
    def tokenize(self, text: str) -> list[int]:
        """Return the ids of a text.

        Raises:
            DataError: when the tokenizer does not know a word; the message names the words.
        """
        ids = self._encode(text)
        unknown = self._tokenizer.unk_token_id
        if unknown is not None and unknown in ids and str(self._tokenizer.unk_token) not in text:
            words = sorted({word for word in text.split() if unknown in self._encode(word)})
            raise DataError(
                f"the tokenizer of {self.path} does not know {words or [text]}; rebuild the tiny model from this "
                "environment's own lexicon, or choose a model whose tokenizer covers any text"
            )
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens included."""
        return self._text_of(tuple(ids))

    def text(self, action_ids: Sequence[int]) -> str:
        """Return the text of sampled ids without the stop token."""
        return self.decode(self._body(action_ids))

    def spans(self, action_ids: Sequence[int], parsed: ParsedAction | None) -> dict[str, tuple[int, int]]:
        """Return the token ranges inside ``action_ids`` of the parts that ``parsed`` found in :meth:`text`."""
        return {} if parsed is None else token_spans(self._body(action_ids), parsed.chars, self.decode)

    def action_ids(self, action: str) -> list[int]:
        """Return an action as an expert writes it, with its end of turn; one with tags of its own gets no others."""
        tagged = f"<think></think>{action if action.startswith('<') else f'<action>{action}</action>'}"
        text = action if self.action_format == "plain" else tagged
        return [*self.tokenize(text), self.turn_end[0]]

    def _body(self, action_ids: Sequence[int]) -> Sequence[int]:
        return action_ids[:-1] if action_ids and action_ids[-1] in self.turn_end else action_ids

    def _encode(self, text: str) -> list[int]:
        return list(self._ids_of(text))

    def _encode_now(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def _decode_now(self, ids: tuple[int, ...]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    # -- the chat template -----------------------------------------------------------------------------------------
    def _chat(self, messages: Sequence[tuple[str, str]]) -> str:
        conversation = [{"role": role, "content": content} for role, content in messages]
        return str(self._tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True))

    def _read_chat_template(self) -> tuple[str, str]:
        """Return the text between an assistant's words and the next user's, and between the user's and the next turn.

        Found by rendering a dummy conversation of one, two and three turns and comparing.
        """
        u1, a1, u2, a2, u3 = _PROBE
        if self.style == "windowed":
            a1 = a2
        one = self._chat([("user", u1)])
        two = self._chat([("user", u1), ("assistant", a1), ("user", u2)])
        close, found, suffix = two.rpartition(a1)[2].partition(u2)
        if not found:
            raise ConfigError(f"model {self.path}: cannot find the end of an assistant turn in its chat template")
        if self.style == "append":
            three = self._chat([("user", u1), ("assistant", a1), ("user", u2), ("assistant", a2), ("user", u3)])
            if two != one + a1 + close + u2 + suffix or three != two + a2 + close + u3 + suffix:
                raise ConfigError(
                    f"model {self.path}: its chat template is not append-only (an earlier turn changes, for example "
                    "its thinking is removed, when the next is added); use prompt.style=windowed or another model"
                )
        return close, suffix


def _load(path: str) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise DataError(f"model {path}: no tokenizer can be loaded from it ({error})") from error
    if not tokenizer.chat_template:
        raise ConfigError(f"model {path}: its tokenizer has no chat template; choose an instruction-tuned model")
    return tokenizer
