"""How far along a reference the steps of another attempt came, counting no stretch of it twice."""

from __future__ import annotations

from torch import Tensor

from sharpo.shapes import expect


def monotone_progress(scores: Tensor, threshold: float) -> Tensor:
    """Δ_k/N = 1[s_k > s₀ and p_k > p*]·(p_k − p*)/N: new ground along a reference of N steps; Σ_k ≤ 1.

    s_k is the best match of step k, p_k = 1 ... N its place (the earliest of equals), and p* the furthest place that
    an earlier step of the same attempt was matched with; it starts at 0.

    Args:
        scores: match of each step of the attempt, in order, with each step of the reference, (K, N) float; −inf
            forbids a pair.
        threshold: s₀.

    Returns:
        (K,), the dtype of ``scores``.

    Example:
        >>> import torch
        >>> monotone_progress(torch.tensor([[0.2, 0.9], [0.9, 0.2], [0.1, 0.3]]), 0.5).tolist()
        [1.0, 0.0, 0.0]
    """
    expect(scores, "K N", "float", name="scores")
    progress = scores.new_zeros(scores.shape[0])
    if not scores.numel():
        return progress
    steps, furthest = scores.shape[1], 0
    best = scores.amax(dim=1)
    place = (scores == best[:, None]).int().argmax(dim=1) + 1
    for k, (score, reached) in enumerate(zip(best.tolist(), place.tolist(), strict=True)):
        if score > threshold and reached > furthest:
            progress[k] = (reached - furthest) / steps
            furthest = reached
    return progress
