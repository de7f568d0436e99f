"""Token log-probabilities from hidden states, one chunk of the vocabulary projection at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sharpo.shapes import expect


def _chunk(
    hidden: Tensor, targets: Tensor, head: Callable[[Tensor], Tensor], temperature: float, with_entropy: bool
) -> tuple[Tensor, Tensor | None]:
    logits = head(hidden)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if temperature != 1.0:
        logits = logits / temperature
    normalizer = torch.logsumexp(logits, dim=-1)
    logp = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - normalizer
    if not with_entropy:
        return logp, None
    return logp, normalizer - (torch.exp(logits - normalizer.unsqueeze(-1)) * logits).sum(-1)


def token_logprobs(
    hidden: Tensor,
    targets: Tensor,
    head: Callable[[Tensor], Tensor],
    temperature: float,
    chunk: int,
    with_entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:
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

    Returns:
        log-probabilities in nats, (N,) fp32 (fp64 for fp64 logits), and entropies in nats, (N,), or None.

    Raises:
        ValueError: when temperature <= 0 (greedy play has no log-probabilities) or chunk < 1.

    Example:
        >>> head = torch.nn.Linear(2, 4, bias=False)
        >>> _ = torch.nn.init.zeros_(head.weight)
        >>> logp, entropy = token_logprobs(torch.ones(3, 2), torch.tensor([0, 1, 3]), head, 1.0, 2, True)
        >>> [round(x, 4) for x in logp.tolist()], round(entropy[0].item(), 4)
        ([-1.3863, -1.3863, -1.3863], 1.3863)
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0 for log-probabilities, got {temperature}; 0 is greedy play only")
    if chunk < 1:
        raise ValueError(f"chunk must be >= 1 token, got {chunk}")
    sizes = expect(hidden, "N D", "float", name="hidden")
    expect(targets, "N", "int", name="targets", N=sizes["N"])
    targets = targets.long()
    pieces: list[tuple[Tensor, Tensor | None]] = []
    for start in range(0, max(sizes["N"], 1), chunk):
        part = (hidden[start : start + chunk], targets[start : start + chunk], head, temperature, with_entropy)
        if torch.is_grad_enabled():
            pieces.append(checkpoint(_chunk, *part, use_reentrant=False, preserve_rng_state=False))
        else:
            pieces.append(_chunk(*part))
    entropies = [entropy for _, entropy in pieces if entropy is not None]
    return torch.cat([logp for logp, _ in pieces]), torch.cat(entropies) if entropies else None
