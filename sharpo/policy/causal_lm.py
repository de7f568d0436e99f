"""The policy: a Hugging Face causal LM that returns log-probabilities of chosen tokens, never a full logit tensor."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils._pytree import register_dataclass

from sharpo.batch import PolicyOutput, Taught
from sharpo.errors import ConfigError, DataError
from sharpo.functional.distill import Distributions
from sharpo.functional.logprobs import token_distributions, token_logprobs
from sharpo.policy.folder import EMBEDDING, HEAD, no_progress, read_config, write_folder
from sharpo.ranges import Count, Natural, checked, refuse_unread
from sharpo.shapes import expect

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
Attention = Literal["sdpa", "eager", "flash_attention_2", "flash_attention_3", "flex_attention"]
register_dataclass(PolicyOutput)  # sharding and DDP find the tensors in it
_NOT_COPIED = ("config.json", ".safetensors", ".bin", ".index.json", ".gguf", ".pt", ".pth", ".h5", ".msgpack")


def compact(token_ids: Tensor, attention: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Move every row's real tokens to the left and trim to the longest row.

    Args:
        token_ids: (B, T) int.
        attention: real tokens, (B, T) bool.

    Returns:
        ids (B, T'), their old columns (B, T') and which of them are real (B, T') bool.

    Example:
        >>> compact(torch.tensor([[0, 7, 8], [9, 0, 0]]), torch.tensor([[False, True, True], [True, False, False]]))[0]
        tensor([[7, 8],
                [9, 0]])
    """
    lengths = attention.sum(dim=1)
    width = max(1, int(lengths.max()))
    columns = torch.argsort(attention.logical_not().to(torch.int8), dim=1, stable=True)[:, :width]
    real = torch.arange(width, device=token_ids.device) < lengths[:, None]
    ids = token_ids.gather(1, columns).masked_fill(real.logical_not(), 0)
    return ids, columns, real


class CausalPolicy(nn.Module):
    """A causal language model as a policy over tokens.

    log p(token_t | tokens_<t) at temperature τ = log softmax(W h_{t−1} / τ)[token_t], fp32, in chunks of scored tokens.

    Args:
        path: folder or hub id of a Hugging Face causal LM.
        dtype: of the parameters: ``float32`` (keep it for training) or ``bfloat16``.
        init: ``pretrained`` loads the weights; ``random`` draws them from ``seed``.
        chunk_tokens: scored tokens whose logits exist at the same time.
        gradient_checkpointing: recompute each decoder layer in the backward pass.
        attention: transformers' attention implementation; the flash ones need their package.
        seed: of the random initial weights.

    Raises:
        DataError: the path holds no model, or weights of another model.
    """

    @checked("model")
    def __init__(
        self,
        path: str,
        *,
        dtype: Literal["float32", "bfloat16"] = "float32",
        init: Literal["pretrained", "random"] = "pretrained",
        chunk_tokens: Count = 1024,
        gradient_checkpointing: bool = False,
        attention: Attention = "sdpa",
        seed: Natural = 0,
    ) -> None:
        super().__init__()
        if dtype not in DTYPES:
            raise ConfigError(f"model.dtype={dtype!r}: choose one of {sorted(DTYPES)}")
        if init not in ("pretrained", "random"):
            raise ConfigError(f"model.init={init!r}: choose pretrained or random")
        if init == "pretrained":
            refuse_unread("model", CausalPolicy, {"seed": seed}, "model.init=random")
        self.path = os.path.expanduser(path)
        self.chunk_tokens = chunk_tokens
        config = read_config(self.path)
        try:
            if init == "pretrained":
                self.lm = _load(self.path, config, DTYPES[dtype], attention)
            else:
                self.lm = _draw(config, DTYPES[dtype], attention, seed)
        except ImportError as error:
            knob = f"model.path={path!r}" if attention in ("sdpa", "eager") else f"model.attention={attention}"
            raise ConfigError(f"{knob}: a package is missing or broken: {str(error).splitlines()[0]}") from error
        self.lm.config.use_cache = False
        if gradient_checkpointing:
            self.lm.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

    @property
    def tied(self) -> bool:
        """Whether the output head is the embedding."""
        return bool(self.lm.config.tie_word_embeddings)

    def forward(
        self,
        token_ids: Tensor,
        attention: Tensor,
        score_mask: Tensor,
        temperature: float,
        with_entropy: bool = False,
        *,
        taught: Taught | None = None,
        top: int | None = None,
    ) -> PolicyOutput:
        """Score the tokens under ``score_mask``; padding on either side never changes a number.

        Args:
            token_ids: (B, T) int.
            attention: real tokens, (B, T) bool.
            score_mask: tokens to score, (B, T) bool, real and never a row's first token.
            temperature: τ > 0.
            with_entropy: also return the entropy in nats of the distribution each scored token was drawn from.
            taught: also return the divergence from these distributions; their mask is a part of ``score_mask``.
            top: return the distributions of the scored tokens, the likeliest ``top`` tokens of each (0 = whole),
                without gradient and in place of everything else.

        Returns:
            ``logp`` (B, T) fp32, 0 outside ``score_mask``.
        """
        sizes = expect(token_ids, "B T", "int", name="token_ids")
        expect(attention, "B T", "bool", name="attention", **sizes)
        expect(score_mask, "B T", "bool", name="score_mask", **sizes)
        if not temperature > 0:
            raise ConfigError(f"temperature={temperature}: scoring needs a temperature above 0")
        ids, columns, real = compact(token_ids, attention)
        scored = score_mask.gather(1, columns) & real
        rows, places = scored.nonzero(as_tuple=True)
        if rows.numel() != int(score_mask.sum()) or bool((places == 0).any()):
            raise ValueError("score_mask marks a padding token or a row's first token: neither has a log-probability")
        where = (rows, columns[rows, places])
        if taught is not None:  # taught tokens first, in their order: a chunk then meets a slice of the distributions
            expect(taught.mask, "B T", "bool", name="taught.mask", **sizes)
            first = taught.mask[where]
            if int(first.sum()) != int(taught.mask.sum()) or int(first.sum()) != len(taught.teacher[0]):
                raise ValueError("taught.mask must lie in score_mask and mark one token for each distribution")
            order = torch.argsort(first.logical_not().to(torch.int8), stable=True)
            rows, places = rows[order], places[order]
            where = (rows, columns[rows, places])
        hidden = self.lm.model(input_ids=ids, use_cache=False).last_hidden_state
        empty = rows.numel() == 0
        if empty:  # every parameter stays in the graph, so that ranks agree on what to reduce
            picked, targets = hidden[:1, 0], ids[:1, 0]
        else:
            picked, targets = hidden[rows, places - 1], ids[rows, places]
        head, chunk = self.lm.lm_head, self.chunk_tokens
        if top is not None:
            seen = token_distributions(picked[: len(rows)], head, temperature, chunk, top)
            blank = torch.zeros(token_ids.shape, dtype=torch.float32, device=hidden.device)
            return PolicyOutput(blank, distributions=seen)
        teacher = None if taught is None else Distributions(*taught.teacher)
        beta = 0.5 if taught is None else taught.beta
        scores = token_logprobs(picked, targets, head, temperature, chunk, with_entropy, teacher, beta)
        blank = scores.logp.new_zeros(token_ids.shape)
        if empty:
            zero = blank + 0.0 * scores.logp.sum()
            return PolicyOutput(zero, blank if with_entropy else None, None if taught is None else blank)
        apart = scores.divergence
        return PolicyOutput(
            blank.index_put(where, scores.logp),
            None if scores.entropy is None else blank.index_put(where, scores.entropy),
            None if apart is None else blank.index_put((where[0][: len(apart)], where[1][: len(apart)]), apart),
        )

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yield (Hugging Face name, full detached tensor), the head too when it is tied; a collective when sharded."""
        for name, parameter in self.lm.named_parameters():
            tensor = parameter.detach()
            full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            yield name, full
            if self.tied and name == EMBEDDING:
                yield HEAD, full

    def save(self, folder: str | Path) -> None:
        """Write a model folder that transformers and vLLM load; every rank calls, rank 0 writes."""
        tensors = {name: tensor.to("cpu") for name, tensor in self.named_weights()}
        if torch.distributed.is_initialized() and torch.distributed.get_rank() != 0:
            return
        config = self.lm.config.__class__.from_dict(self.lm.config.to_dict())
        config.use_cache = True
        write_folder(folder, config, tensors)
        _copy_tokenizer(self.path, Path(folder))


def _load(path: str, config: Any, dtype: torch.dtype, attention: str) -> Any:
    from transformers import AutoModelForCausalLM

    with no_progress():
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                path,
                config=config,
                dtype=dtype,
                attn_implementation=attention,
                output_loading_info=True,
                trust_remote_code=False,
            )
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            raise DataError(f"model.path={path!r}: its weights cannot be loaded: {error}") from error
    model, report = loaded
    missing = [name for name in report["missing_keys"] if not (config.tie_word_embeddings and name == HEAD)]
    strange = [*missing, *report["unexpected_keys"], *report["mismatched_keys"]]
    if strange:
        raise DataError(
            f"model.path={path!r}: the weights are those of another model than its config.json describes "
            f"({len(missing)} missing, {len(strange) - len(missing)} foreign or misshapen, first: {strange[0]}): "
            "point model.path at a folder whose config and weights were saved together"
        )
    return model


def _draw(config: Any, dtype: torch.dtype, attention: str, seed: int) -> Any:
    from transformers import AutoModelForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)


def _copy_tokenizer(path: str, folder: Path) -> None:
    if not Path(path).is_dir():
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(path, trust_remote_code=False).save_pretrained(folder)
        return
    for file in sorted(Path(path).iterdir()):
        wanted = file.name == "tokenizer_config.json" or not file.name.endswith(_NOT_COPIED)
        if file.is_file() and wanted and file.resolve().parent != folder.resolve():
            shutil.copyfile(file, folder / file.name)
