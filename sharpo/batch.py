"""What the update reads: Batch, Scores, PolicyOutput, LossOutput. Frozen, validated, movable between devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import torch
from torch import Tensor

from sharpo.shapes import expect

_T = TypeVar("_T")


def _moved(value: _T, device: torch.device | str, non_blocking: bool) -> _T:
    changed: dict[str, Any] = {}
    for f in fields(value):  # type: ignore[arg-type]
        x = getattr(value, f.name)
        changed[f.name] = x.to(device, non_blocking=non_blocking) if isinstance(x, Tensor) else x
    return type(value)(**changed)


@dataclass(frozen=True)
class Update:
    """The global size of the optimizer update a batch belongs to, over all micro-batches and all ranks.

    Args:
        tokens: trained tokens.
        sequences: rows with at least one trained token.
        averaging: micro-batches times ranks: what Lightning and DDP will divide the gradient by.
    """

    tokens: int
    sequences: int
    averaging: int = 1


@dataclass(frozen=True)
class Batch:
    """B rows of T tokens, right-padded. A row is one or more turns of one episode.

    Args:
        token_ids: (B, T) int.
        attention: real tokens, (B, T) bool.
        action_mask: sampled and trained tokens, (B, T) bool.
        span_mask: tokens inside their segment's span, (B, T) bool, a subset of ``action_mask``.
        segment_index: row of the Segments table that a sampled token belongs to, (B, T) int, -1 outside.
        behaviour_logp: the engine's log-probabilities in nats, (B, T) float; NaN where it reported none.
        update: global sizes; see :class:`Update`.
        policy_version: version of the weights that sampled the rows.
        advantages: per-token effective advantage, (B, T) float; None = not yet credited, which the loss refuses.
        teacher_token_ids: (B, H+T) int: the row with its hint spliced in, right-aligned, so the last columns from
            the splice on are the student's, token for token; None when no row of the batch has a hint.
        teacher_attention: (B, H+T) bool; all False for a row without a hint.
    """

    token_ids: Tensor
    attention: Tensor
    action_mask: Tensor
    span_mask: Tensor
    segment_index: Tensor
    behaviour_logp: Tensor
    update: Update
    policy_version: int
    advantages: Tensor | None = None
    teacher_token_ids: Tensor | None = None
    teacher_attention: Tensor | None = None

    def __post_init__(self) -> None:
        sizes = expect(self.token_ids, "B T", "int", name="Batch.token_ids")
        expect(self.segment_index, "B T", "int", name="Batch.segment_index", **sizes)
        for name in ("attention", "action_mask", "span_mask"):
            expect(getattr(self, name), "B T", "bool", name=f"Batch.{name}", **sizes)
        expect(self.behaviour_logp, "B T", "float", name="Batch.behaviour_logp", **sizes)
        if self.advantages is not None:
            expect(self.advantages, "B T", "float", name="Batch.advantages", **sizes)
        if (self.teacher_token_ids is None) != (self.teacher_attention is None):
            raise ValueError("Batch: teacher_token_ids and teacher_attention come together")
        if self.teacher_token_ids is not None and self.teacher_attention is not None:
            expect(self.teacher_token_ids, "B HT", "int", name="Batch.teacher_token_ids", B=sizes["B"])
            expect(self.teacher_attention, "B HT", "bool", name="Batch.teacher_attention", B=sizes["B"])

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """Return the batch on another device."""
        return _moved(self, device, non_blocking)


@dataclass(frozen=True)
class Scores:
    """Log-probabilities in nats at scoring time: same weights, kernels, dtype and temperature; only contexts differ.

    Args:
        old_logp: student, (B, T) float, meaningful on ``action_mask``.
        teacher_logp: the policy that also sees the hint, (B, T) float, NaN on rows without one; None = no teacher.
        reference_logp: frozen initial policy for the KL term, (B, T) float; None = no KL term.
    """

    old_logp: Tensor
    teacher_logp: Tensor | None = None
    reference_logp: Tensor | None = None

    def __post_init__(self) -> None:
        sizes = expect(self.old_logp, "B T", "float", name="Scores.old_logp")
        for name in ("teacher_logp", "reference_logp"):
            if getattr(self, name) is not None:
                expect(getattr(self, name), "B T", "float", name=f"Scores.{name}", **sizes)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Scores:
        """Return the scores on another device."""
        return _moved(self, device, non_blocking)


Distributions = tuple[Tensor, Tensor | None, Tensor | None]
"""log p (N, K), token ids (N, K), log p of the rest (N,): :class:`sharpo.functional.distill.Distributions`."""


@dataclass(frozen=True)
class Divergence:
    """What an update compares with the teacher: JSD_β over the teacher's ``top`` likeliest tokens; 0 = over all."""

    top: int = 0
    beta: float = 0.5


@dataclass(frozen=True)
class Taught:
    """A teacher's distributions for the tokens under ``mask`` (B, T), row by row, and how to compare with them."""

    mask: Tensor
    teacher: Distributions
    beta: float


@dataclass(frozen=True)
class PolicyOutput:
    """The current policy on a batch.

    Args:
        logp: (B, T) nats, with gradient.
        entropy: (B, T) nats, when asked for.
        divergence: from a teacher's distributions, (B, T) nats, with gradient, 0 on tokens that have none; when given.
        distributions: of the scored tokens, row by row, without gradient; when asked for, and ``logp`` is then 0.
    """

    logp: Tensor
    entropy: Tensor | None = None
    divergence: Tensor | None = None
    distributions: Distributions | None = None


@dataclass(frozen=True)
class LossOutput:
    """A scalar loss, already divided by the update's global count, and named scalars to log (detached)."""

    loss: Tensor
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
