"""Texts as vectors: a transformer's last hidden states, averaged over the text, at length 1 (the E5 recipe)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sharpo.errors import ConfigError, DataError

Kind = Literal["query", "passage"]
_WEIGHTS = (".safetensors", ".bin")
_READ = (*_WEIGHTS, ".json", ".txt", ".model")
"""Endings of all that a model and its tokenizer are read from."""


class Encoder:
    """e(x) = h̄/‖h̄‖, h̄ = mean over the text's tokens of the last hidden states of prefix + x.

    Source: Wang et al. (2022), E5; Karpukhin et al. (2020), DPR.

    Args:
        path: folder of a Hugging Face encoder with its tokenizer.
        query: what stands before a query.
        passage: what stands before a passage.
        most_tokens: longer texts are cut here.
        batch: texts encoded at once.
        device: where the model lies, for example ``cpu`` or ``cuda``.

    Raises:
        ConfigError: a setting is out of range, or torch or transformers is missing (when first used).
        DataError: there is no model in the folder (when first used).
    """

    def __init__(
        self,
        path: str,
        query: str = "query: ",
        passage: str = "passage: ",
        most_tokens: int = 256,
        batch: int = 64,
        device: str = "cpu",
    ) -> None:
        if most_tokens < 1 or batch < 1:
            raise ConfigError(
                f"env.retriever: most_tokens and batch must be >= 1, got most_tokens={most_tokens}, batch={batch}"
            )
        self.path = Path(path).expanduser()
        self.prefix: dict[Kind, str] = {"query": query, "passage": passage}
        self.most_tokens, self.batch, self.device = most_tokens, batch, device

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights, the tokenizer and every setting that changes a vector."""
        names = sorted(p for p in self.path.glob("*") if p.suffix in _READ)
        if not any(name.suffix in _WEIGHTS for name in names):
            raise DataError(
                f"there is no encoder in {self.path}: set env.retriever.encoder to the folder of a Hugging Face model "
                "(config.json, weights, tokenizer), for example a copy of intfloat/e5-base-v2"
            )
        digest = hashlib.sha256(repr((sorted(self.prefix.items()), self.most_tokens, "mean", 1)).encode())
        for name in names:
            with name.open("rb") as file:
                digest.update(name.name.encode() + hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    @property
    def width(self) -> int:
        """Numbers of one vector."""
        return int(self._model[1].config.hidden_size)

    def encode(self, texts: Sequence[str], kind: Kind) -> np.ndarray:
        """Return one vector a text, (N, width) float32, each of length 1.

        Args:
            texts: without their prefix.
            kind: which prefix they get.
        """
        import torch

        tokenizer, model = self._model
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))  # alike lengths need little padding
        made = np.empty((len(texts), self.width), np.float32)
        with torch.inference_mode():
            for start in range(0, len(order), self.batch):
                places = order[start : start + self.batch]
                words = [self.prefix[kind] + texts[place] for place in places]
                read = tokenizer(
                    words, padding=True, truncation=True, max_length=self.most_tokens, return_tensors="pt"
                ).to(self.device)
                states = model(**read).last_hidden_state.float()
                mask = read["attention_mask"].unsqueeze(-1).to(states.dtype)
                mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
                made[places] = torch.nn.functional.normalize(mean, dim=-1).cpu().numpy()
        return made

    @cached_property
    def _model(self) -> tuple[Any, Any]:
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError as error:
            raise ConfigError(
                f"an encoder needs torch and transformers ({error}): pip install 'sharpo[dense]'"
            ) from error
        _ = self.fingerprint  # says in one message that there is no model
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(self.path, trust_remote_code=False)
            model: Any = AutoModel.from_pretrained(self.path, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise DataError(f"the encoder in {self.path} cannot be loaded ({error})") from error
        if tokenizer.pad_token is None:
            raise DataError(f"the tokenizer in {self.path} has no padding token, so texts cannot be encoded together")
        return tokenizer, model.to(self.device).eval()

    def __reduce__(self) -> tuple[Any, ...]:
        prefixes = self.prefix["query"], self.prefix["passage"]
        return type(self), (str(self.path), *prefixes, self.most_tokens, self.batch, self.device)
