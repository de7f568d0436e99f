"""Engines that play text instead of sampling from weights: the base, and one that plays a script."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from torch import Tensor

from sharpo.errors import ConfigError, EngineError
from sharpo.protocols import Completion, Request
from sharpo.ranges import Count, checked

Encode = Callable[[str], list[int]]


class TextEngine(ABC):
    """Base of the engines without weights: a subclass gives an action as text, written in the agent's own format.

    Args:
        encode: an action's text to ids, the stop token included (``Renderer.action_ids``); the data module attaches
            its renderer's when it is None.
        max_context: most tokens of prompt plus generation; None = no limit.
    """

    reports_logp = False
    informed: bool | None = False

    @checked("engine")
    def __init__(self, encode: Encode | None = None, max_context: Count | None = None) -> None:
        self.version = -1
        self.encode = encode
        self.max_context = max_context
        self._waiting: deque[Request] = deque()

    @abstractmethod
    def act(self, request: Request) -> tuple[str, bool]:
        """Return the action's text and whether it may be trained on."""

    def attach(self, encode: Encode) -> None:
        """Use ``encode`` unless one was given at construction."""
        self.encode = self.encode or encode

    def submit(self, request: Request) -> None:
        """Admit a request."""
        wanted = len(request.prompt_ids) + request.max_tokens
        if self.max_context is not None and wanted > self.max_context:
            raise EngineError(f"request {request.id}: {wanted} tokens exceed engine.max_context={self.max_context}")
        self._waiting.append(request)

    def poll(self) -> list[Completion]:
        """Answer every request that waits; an answer longer than its budget is cut and ends by ``length``."""
        done = []
        while self._waiting:
            request = self._waiting.popleft()
            if self.encode is None:
                raise ConfigError(f"{type(self).__name__}: it has no encode; give it Renderer.action_ids")
            text, trainable = self.act(request)
            ids = tuple(self.encode(text))
            kept = ids[: request.max_tokens]
            done.append(Completion(request.id, kept, (), "stop" if kept == ids else "length", trainable))
        return done

    def load_weights(self, version: int, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Note the version; there are no weights to take."""
        del named_tensors
        self.version = version

    def score(self, prompt_ids: Sequence[int], action_ids: Sequence[int], temperature: float) -> list[float]:
        """Refuse: text has no log-probability here."""
        del prompt_ids, action_ids, temperature
        raise EngineError(f"{type(self).__name__} has no weights and cannot score; choose engine=hf or engine=vllm")

    def close(self) -> None:
        """Forget what waits."""
        self._waiting.clear()


class ScriptedEngine(TextEngine):
    """Plays a fixed list of actions, turn by turn and then from the start again, or what a function of the view says.

    Args:
        script: action texts, or ``Callable[[TurnView], str]``.
        encode: see :class:`TextEngine`.
        max_context: see :class:`TextEngine`.
    """

    def __init__(
        self,
        script: Sequence[str] | Callable[..., str],
        encode: Encode | None = None,
        max_context: Count | None = None,
    ) -> None:
        super().__init__(encode, max_context)
        if not callable(script) and not list(script):
            raise ConfigError("engine.script is empty; give at least one action")
        self.script = script

    def act(self, request: Request) -> tuple[str, bool]:
        """Return the script's text for this turn."""
        if callable(self.script):
            return self.script(request.view), True
        return self.script[request.view.turn % len(self.script)], True
