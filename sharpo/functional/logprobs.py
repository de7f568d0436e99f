"""Log-probabilities from hidden states, one chunk of the vocabulary projection at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sharpo.functional.distill import Distributions, divergence, likeliest
from sharpo.shapes import expect

Head = Callable[[Tensor], Tensor]


class TokenScores(NamedTuple):
    """What the logits of N tokens were reduced to."""

    logp: Tensor
    """log p of the target tokens in nats, (N,) fp32 (fp64 for fp64 logits)."""
    entropy: Tensor | None = None
    """In nats, (N,), when asked for."""
    divergence: Tensor | None = None
    """From a teacher's distributions in nats, (M,), for the first M tokens, when given any."""


def _logits(hidden: Tensor, head: Head, temperature: float) -> Tensor:
    logits = head(hidden)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits if temperature == 1.0 else logits / temperature


def _chunk(
    hidden: Tensor,
    targets: Tensor,
    head: Head,
    temperature: float,
    with_entropy: bool,
    teacher: Distributions | None,
    beta: float,
) -> TokenScores:
    logits = _logits(hidden, head, temperature)
    normalizer = torch.logsumexp(logits, dim=-1)
    logp = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - normalizer
    entropy = apart = None
    if with_entropy:
        entropy = normalizer - (torch.exp(logits - normalizer.unsqueeze(-1)) * logits).sum(-1)
    if teacher is not None:
        first = len(teacher.logp)
        apart = divergence(logits[:first] - normalizer[:first, None], teacher, beta)
    return TokenScores(logp, entropy, apart)


def token_logprobs(
    hidden: Tensor,
    targets: Tensor,
    head: Head,
    temperature: float,
    chunk: int,
    with_entropy: bool = False,
    teacher: Distributions | None = None,
    beta: float = 0.5,
) -> TokenScores:
    """Return log p(y_n) = z_n[y_n]/τ − log Σ_v exp(z_n[v]/τ), z = head(hidden), with one chunk of z at a time.

    The logits of a chunk are made, used and dropped in the forward pass and made again in the backward pass, so the
    memory is O(chunk · V) instead of O(N · V). Gradients reach ``hidden`` and the parameters of ``head``.

    Args:
        hidden: last hidden states, one for each predicted token, (N, D) float.
        targets: the tokens they predict, (N,) int64.
        head: (c, D) → (c, V) logits, for example an ``nn.Linear``; finite.
        temperature: τ > 0, the sampling temperature the probabilities refer to.
        chunk: tokens projected at once.
        with_entropy: also return H_n = −Σ_v p_n[v] log p_n[v].
        teacher: M <= N distributions of a teacher for the *first* M tokens: also return JSD_β from them.
        beta: of the divergence; see :func:`sharpo.functional.distill.jensen_shannon`.

    Raises:
        ValueError: when temperature <= 0 (greedy play has no log-probabilities) or chunk < 1.

    Example:
        >>> head = torch.nn.Linear(2, 4, bias=False)
        >>> _ = torch.nn.init.zeros_(head.weight)
        >>> logp, entropy, _ = token_logprobs(torch.ones(3, 2), torch.tensor([0, 1, 3]), head, 1.0, 2, True)
        >>> [round(x, 4) for x in logp.tolist()], round(entropy[0].item(), 4)
        ([-1.3863, -1.3863, -1.3863], 1.3863)
    """
    _check(temperature, chunk)
    sizes = expect(hidden, "N D", "float", name="hidden")
    expect(targets, "N", "int", name="targets", N=sizes["N"])
    targets = targets.long()
    pieces: list[TokenScores] = []
    for start in range(0, max(sizes["N"], 1), chunk):
        cut = slice(start, start + chunk)
        known = None if teacher is None else Distributions(*(None if x is None else x[cut] for x in teacher))  # type: ignore[arg-type]
        part = (hidden[cut], targets[cut], head, temperature, with_entropy, known, beta)
        if torch.is_grad_enabled():
            pieces.append(TokenScores(*checkpoint(_chunk, *part, use_reentrant=False, preserve_rng_state=False)))
        else:
            pieces.append(_chunk(*part))
    joined = [[piece[k] for piece in pieces] for k in range(3)]
    return TokenScores(*(None if part[0] is None else torch.cat(part) for part in joined))  # type: ignore[arg-type]


@torch.no_grad()
def token_distributions(hidden: Tensor, head: Head, temperature: float, chunk: int, top: int) -> Distributions:
    """Return the next-token distributions, cut to their ``top`` likeliest tokens (0 = whole), without gradient.

    The memory of the result is O(N · top), or O(N · V) when whole.

    Args:
        hidden: last hidden states, one for each predicted token, (N, D) float.
        head: (c, D) → (c, V) logits; finite.
        temperature: τ > 0.
        chunk: tokens projected at once.
        top: K; see :func:`sharpo.functional.distill.likeliest`.

    Raises:
        ValueError: when temperature <= 0 or chunk < 1.
    """
    _check(temperature, chunk)
    expect(hidden, "N D", "float", name="hidden")
    pieces = [
        likeliest(torch.log_softmax(_logits(hidden[start : start + chunk], head, temperature), dim=-1), top)
        for start in range(0, max(len(hidden), 1), chunk)
    ]
    joined = [[piece[k] for piece in pieces] for k in range(3)]
    return Distributions(*(None if part[0] is None else torch.cat(part) for part in joined))  # type: ignore[arg-type]


def _check(temperature: float, chunk: int) -> None:
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0 for log-probabilities, got {temperature}; 0 is greedy play only")
    if chunk < 1:
        raise ValueError(f"chunk must be >= 1 token, got {chunk}")
