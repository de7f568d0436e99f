"""A frozen cross-encoder that judges whether two steps are the same move: a similarity for SCPO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sharpo.errors import ConfigError, DataError
from sharpo.policy.folder import no_progress

Step = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Reranker:
    """s = σ(logit) of a one-label sequence classifier that reads both steps, each as ``observation > action``.

    The model is loaded at the first use and kept; it is never trained. Equal texts are read once, and the matches of
    the last calls are kept.

    Args:
        path: folder with config.json, weights and tokenizer of a re-ranker with one label.
        device: where it runs, ``cpu`` or ``cuda``.
        max_tokens: of a pair; the longer of the two steps is cut from its end.
        batch: pairs in a pass.
    """

    path: str
    device: str = "cpu"
    max_tokens: int = 512
    batch: int = 64

    def __post_init__(self) -> None:
        for name in ("max_tokens", "batch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"algorithm.similarity.{name} must be >= 1, got {getattr(self, name)}")

    def __call__(self, failed: Sequence[Step], successful: Sequence[Step]) -> Tensor:
        """Return the match of every failed step with every successful one, (K, N) float32 in [0, 1].

        Raises:
            DataError: the path holds no re-ranker with one label and a padding token.
        """
        rows, columns = list(dict.fromkeys(failed)), list(dict.fromkeys(successful))
        row, column = ({step: i for i, step in enumerate(steps)} for steps in (rows, columns))
        scores = _matches(self, tuple(rows), tuple(columns))
        return scores[torch.tensor([row[s] for s in failed])][:, torch.tensor([column[s] for s in successful])]


@lru_cache(maxsize=1024)
def _matches(judge: Reranker, failed: tuple[Step, ...], successful: tuple[Step, ...]) -> Tensor:
    """Return the match of distinct steps, (K, N) float32."""
    tokenizer, model = _load(judge.path, judge.device)
    pairs = [(_text(a), _text(b)) for a in failed for b in successful]
    scores: list[Tensor] = []
    for start in range(0, len(pairs), judge.batch):
        first, second = zip(*pairs[start : start + judge.batch], strict=True)
        read = tokenizer(
            list(first), list(second), padding=True, truncation=True, max_length=judge.max_tokens, return_tensors="pt"
        )
        with torch.no_grad():
            scores.append(model(**read.to(judge.device)).logits[:, 0].float().sigmoid().cpu())
    return torch.cat(scores).reshape(len(failed), len(successful))


def _text(step: Step) -> str:
    return f"{step[0]} > {step[1]}"


@lru_cache(maxsize=1)
def _load(path: str, device: str) -> tuple[Any, Any]:
    folder = Path(path).expanduser()
    remedy = "set algorithm.similarity.path to the folder of a re-ranker"
    if not (folder / "config.json").is_file():
        raise DataError(f"algorithm.similarity.path={path!r} holds no model (no config.json): {remedy}")
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    with no_progress():
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
            model = AutoModelForSequenceClassification.from_pretrained(str(folder), trust_remote_code=False)
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"algorithm.similarity.path={path!r} cannot be read ({error}): {remedy}") from error
    labels = model.config.num_labels
    if labels != 1:
        raise DataError(f"algorithm.similarity.path={path!r} has {labels} labels, a re-ranker has 1: {remedy}")
    if tokenizer.pad_token_id is None:
        raise DataError(f"algorithm.similarity.path={path!r} has no padding token: {remedy}")
    return tokenizer, model.to(device).eval()
