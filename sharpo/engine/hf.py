"""The reference engine: transformers with a key-value cache, its own copy of the model, on CPU, CUDA or MPS."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from sharpo.engine.weights import check_coverage
from sharpo.errors import ConfigError, DataError, EngineError
from sharpo.protocols import Completion, Request
from sharpo.ranges import Count, checked
from sharpo.seeding import derive

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_HEAD = "lm_head.weight"


def inverse_cdf(logp: Tensor, uniform: Tensor) -> Tensor:
    """Return the first token whose cumulative probability exceeds a uniform number.

    Args:
        logp: log-probabilities, (N, V) float.
        uniform: in [0, 1), (N,) float.

    Example:
        >>> inverse_cdf(torch.tensor([[0.5, 0.5], [0.5, 0.5]]).log(), torch.tensor([0.2, 0.8])).tolist()
        [0, 1]
    """
    cumulative = logp.double().exp().cumsum(dim=-1)
    threshold = uniform.double().to(logp.device) * cumulative[:, -1]
    index = torch.searchsorted(cumulative, threshold[:, None], right=True).squeeze(-1)
    return index.clamp(max=logp.shape[-1] - 1)


class HfEngine:
    """Generates with transformers: every poll finishes up to ``max_sequences`` waiting requests.

    A request's tokens depend on its seed, its prompt and the weights, not on what else is in the batch (up to
    rounding). At temperature 0 the reported log-probabilities are those at temperature 1.

    Args:
        path: model folder or hub id; only its configuration is read.
        max_context: most tokens of prompt plus generation.
        max_sequences: requests generated together.
        dtype: ``float32`` or ``bfloat16``.
        device: ``auto`` (CUDA, else CPU), ``cpu``, ``cuda`` or ``mps``.
    """

    reports_logp = True
    informed: bool | None = None

    @checked("engine")
    def __init__(
        self,
        path: str,
        *,
        max_context: Count,
        max_sequences: Count = 64,
        dtype: Literal["float32", "bfloat16"] = "float32",
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    ) -> None:
        if dtype not in _DTYPES:
            raise ConfigError(f"engine.dtype={dtype!r}: choose one of {sorted(_DTYPES)}")
        self.path = path
        self.max_context: int = max_context
        self.max_sequences = max_sequences
        self.version = -1
        self._dtype = _DTYPES[dtype]
        self._device = _device(device)
        self._model: Any = None
        self._waiting: list[Request] = []

    def submit(self, request: Request) -> None:
        """Admit a request; see :class:`sharpo.protocols.RolloutEngine`."""
        if self.version < 0:
            raise EngineError("the engine has no weights yet: publish the policy's weights before generating")
        if any(request.id == other.id for other in self._waiting):
            raise EngineError(f"request {request.id} is in flight already: give every request its own id")
        self._check(str(request.id), request.prompt_ids, request.max_tokens)
        self._waiting.append(request)

    def poll(self) -> list[Completion]:
        """Finish the oldest waiting requests."""
        batch, self._waiting = self._waiting[: self.max_sequences], self._waiting[self.max_sequences :]
        return self._generate(batch) if batch else []

    def load_weights(self, version: int, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Take new weights; refuses while requests are in flight."""
        if version == self.version:
            return
        if version < 0:
            raise EngineError(f"version={version}: versions of published weights begin at 0")
        if self._waiting:
            raise EngineError(f"{len(self._waiting)} requests are in flight: finish them before loading new weights")
        if self._model is None:
            self._model = _empty_model(self.path, self._dtype).to(self._device)
        self.version = -1
        own = dict(self._model.named_parameters(remove_duplicate=False))
        given: list[str] = []
        with torch.no_grad():
            for name, tensor in named_tensors:
                given.append(name)
                if name in own:
                    if own[name].shape != tensor.shape:
                        raise EngineError(
                            f"weights for the engine: {name} has shape {tuple(tensor.shape)}, "
                            f"{tuple(own[name].shape)} expected: engine and policy must be of one model"
                        )
                    own[name].copy_(tensor)
        check_coverage(own.keys(), given)
        self.version = version

    @torch.no_grad()
    def score(self, prompt_ids: Sequence[int], action_ids: Sequence[int], temperature: float) -> list[float]:
        """Return log p(action token) in nats at a temperature (0: at temperature 1), under the weights inside."""
        if self.version < 0:
            raise EngineError("the engine has no weights yet: publish the policy's weights before scoring")
        if not action_ids:
            return []
        self._check("score", prompt_ids, len(action_ids))
        ids = torch.tensor([[*prompt_ids, *action_ids]], device=self._device)
        logits = self._model(input_ids=ids, use_cache=False).logits[0, len(prompt_ids) - 1 : -1].float()
        logp = (logits / (temperature or 1.0)).log_softmax(dim=-1)
        return logp.gather(-1, ids[0, len(prompt_ids) :, None]).squeeze(-1).tolist()

    def close(self) -> None:
        """Free the model."""
        self._model = None
        self._waiting.clear()
        self.version = -1

    def _check(self, name: str, prompt_ids: Sequence[int], max_tokens: int) -> None:
        if not prompt_ids or max_tokens < 1 or len(prompt_ids) + max_tokens > self.max_context:
            raise EngineError(
                f"request {name}: a prompt of {len(prompt_ids)} tokens plus max_tokens={max_tokens} does not fit "
                f"max_context={self.max_context}: shorten it, or raise engine.max_context"
            )
        vocabulary = self._model.config.vocab_size
        if max(prompt_ids) >= vocabulary or min(prompt_ids) < 0:
            raise EngineError(f"request {name}: a prompt token lies outside the vocabulary of {vocabulary}")

    @torch.no_grad()
    def _generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Generate for all requests together; finished rows leave the batch."""
        width = max(len(request.prompt_ids) for request in requests)
        padding = [width - len(request.prompt_ids) for request in requests]
        ids = torch.tensor([[0] * pad + list(r.prompt_ids) for pad, r in zip(padding, requests, strict=True)])
        ids = ids.to(self._device)
        pads = torch.tensor(padding, device=self._device)
        attention = torch.arange(width, device=self._device) >= pads[:, None]
        positions = attention.cumsum(dim=1).sub(1).clamp(min=0)
        tokens: list[list[int]] = [[] for _ in requests]
        logps: list[list[float]] = [[] for _ in requests]
        finish: dict[int, Literal["stop", "length"]] = {}
        rows, cache = list(range(len(requests))), None
        while rows:
            output = self._model(
                input_ids=ids,
                attention_mask=attention,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache = output.past_key_values
            chosen, logp = _sample(
                output.logits[:, -1], [requests[row] for row in rows], [len(tokens[r]) for r in rows]
            )
            for row, token, value in zip(rows, chosen.tolist(), logp.tolist(), strict=True):
                tokens[row].append(token)
                logps[row].append(value)
                if token in requests[row].stop_ids:
                    finish[row] = "stop"
                elif len(tokens[row]) >= requests[row].max_tokens:
                    finish[row] = "length"
            kept = [n for n, row in enumerate(rows) if row not in finish]
            if not kept:
                break
            if len(kept) < len(rows):
                index = torch.tensor(kept, device=self._device)
                cache.batch_select_indices(index)
                chosen, attention, positions = chosen[index], attention[index], positions[index]
                rows = [rows[n] for n in kept]
            ids = chosen[:, None]
            attention = torch.cat([attention, attention.new_ones(len(rows), 1)], dim=1)
            positions = positions[:, -1:] + 1
        return [
            Completion(request.id, tuple(tokens[n]), tuple(logps[n]), finish[n]) for n, request in enumerate(requests)
        ]


def _sample(logits: Tensor, requests: Sequence[Request], places: Sequence[int]) -> tuple[Tensor, Tensor]:
    temperature = torch.tensor([r.temperature for r in requests], device=logits.device)
    greedy = temperature <= 0
    logp = (logits.float() / temperature.masked_fill(greedy, 1.0)[:, None]).log_softmax(dim=-1)
    uniform = torch.tensor(
        [
            random.Random(derive(request.seed, "token", place)).random()  # noqa: S311
            for request, place in zip(requests, places, strict=True)
        ],
        dtype=torch.float64,
    )
    chosen = torch.where(greedy, logits.argmax(dim=-1), inverse_cdf(logp.cpu(), uniform).to(logits.device))
    return chosen, logp.gather(-1, chosen[:, None]).squeeze(-1)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not present.get(name, False):
        raise ConfigError(
            f"engine.device={name!r} is not there: choose auto or one of {[k for k in present if present[k]]}"
        )
    return torch.device(name, torch.cuda.current_device()) if name == "cuda" else torch.device(name)


def _empty_model(path: str, dtype: torch.dtype) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        config = AutoConfig.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"model.path={path!r} holds no model for the engine: give the policy's folder or hub id"
        ) from error
    with torch.random.fork_rng(devices=[]):
        return AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa").eval()
