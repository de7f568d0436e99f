"""From per-token losses to one scalar: the only place where a loss is divided by a count.

Counts are those of the whole optimizer update (all micro-batches, all ranks), so that neither the number of
micro-batches nor the number of ranks changes the gradient. ``averaging`` undoes the mean that the trainer takes later.
"""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from sharpo.functional.masked import masked_mean, masked_sum
from sharpo.shapes import expect

Aggregation = Literal[
    "token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm", "seq-mean-token-const"
]
NORM_LENGTH_MODES: tuple[Aggregation, ...] = ("seq-mean-token-sum-norm", "seq-mean-token-const")


def aggregate(
    x: Tensor,
    mask: Tensor,
    *,
    tokens: int,
    sequences: int,
    averaging: int = 1,
    mode: Aggregation = "token-mean",
    norm_length: int | None = None,
) -> Tensor:
    """Return this micro-batch's share of the update's loss, times ``averaging``.

    ``token-mean`` Σ m·x / N_tokens · ``seq-mean-token-sum`` Σ_rows Σ_t m·x / N_rows · ``seq-mean-token-mean``
    Σ_rows (Σ_t m·x / Σ_t m) / N_rows · ``seq-mean-token-sum-norm`` Σ m·x / L with a constant L (rows are not counted,
    so the gradient grows with their number) · ``seq-mean-token-const`` Σ_rows (Σ_t m·x / L) / N_rows (Dr. GRPO,
    arXiv 2503.20783 §3.2: no length of a row enters its weight).
    N are the counts of the update; an update with nothing to train on gives 0.

    Args:
        x: per-token loss, (B, T) float.
        mask: trained tokens, (B, T) bool.
        tokens: trained tokens of the whole update.
        sequences: rows of the whole update with at least one trained token.
        averaging: micro-batches × ranks: what the trainer will divide by.
        mode: how tokens and rows weigh.
        norm_length: L of ``seq-mean-token-sum-norm`` and ``seq-mean-token-const``, tokens.

    Raises:
        ValueError: when the mode is unknown or needs a ``norm_length`` that is not given.

    Example:
        >>> import torch
        >>> x, mask = torch.tensor([[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]]), torch.tensor([[True] * 3, [True, False, False]])
        >>> aggregate(x, mask, tokens=4, sequences=2).item()
        2.5
    """
    sizes = expect(x, "B T", "float", name="loss")
    expect(mask, "B T", "bool", name="mask", **sizes)
    if mode not in get_args(Aggregation):
        raise ValueError(f"aggregation must be one of {', '.join(get_args(Aggregation))}; got {mode!r}")
    if mode == "token-mean":
        return masked_sum(x, mask) / max(tokens, 1) * averaging
    if mode == "seq-mean-token-sum":
        return masked_sum(x, mask) / max(sequences, 1) * averaging
    if mode == "seq-mean-token-mean":
        return masked_mean(x, mask, dim=1).sum() / max(sequences, 1) * averaging
    if norm_length is None or norm_length < 1:
        raise ValueError(f"aggregation {mode} needs norm_length >= 1 (tokens), got {norm_length}")
    rows = 1 if mode == "seq-mean-token-sum-norm" else max(sequences, 1)
    return masked_sum(x, mask) / (norm_length * rows) * averaging


def token_share(x: Tensor, mask: Tensor, tokens: int) -> Tensor:
    """Σ m·x / N_tokens, detached: summed over an update's micro-batches and ranks, the mean over trained tokens."""
    return masked_sum(x.detach().float(), mask) / max(tokens, 1)
