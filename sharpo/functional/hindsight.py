"""An action's likelihood in hindsight, and what it makes of the return that followed."""

from __future__ import annotations

import torch
from torch import Tensor

from sharpo.functional.masked import masked_fill
from sharpo.functional.segment_ops import index_size, segment_extent, segment_mean
from sharpo.shapes import expect


def hindsight_likelihood(teacher_logp: Tensor, length: Tensor, scored: Tensor, temperature: float) -> Tensor:
    """π_h(a_k) = exp( Σ_t log π_T(y_t) / (T·n_k) ) ∈ (0, 1], (S,) float64; 0 where not scored.

    Args:
        teacher_logp: Σ_t log π_T over the span, (S,) float, nats; any value where not scored.
        length: n_k tokens, (S,) int.
        scored: segments the teacher has read, (S,) bool.
        temperature: T > 0; above 1 it flattens.
    """
    mean = masked_fill(teacher_logp.double(), scored) / length.clamp(min=1)
    return masked_fill((mean / temperature).exp(), scored)


def hindsight_ratio(likelihood: Tensor, episode: Tensor, scored: Tensor, *, low: float, high: float) -> Tensor:
    """ρ_k = clip( π_h(a_k) / mean_k π_h, low, high ), the mean over the episode's scored segments; 1 where not scored.

    Args:
        likelihood: π_h, (S,) float.
        episode: episode of each segment, (S,) int.
        scored: segments the teacher has read, (S,) bool.
        low: smallest ratio, in [0, 1].
        high: largest ratio, >= 1.

    Returns:
        (S,) float.
    """
    mean = segment_mean(likelihood, episode, index_size(episode), scored)[episode]
    ratio = masked_fill(likelihood, scored) / masked_fill(mean, scored, 1.0)
    return masked_fill(ratio.clamp(low, high), scored, 1.0)


def hindsight_value(
    ratio: Tensor, episode: Tensor, turn: Tensor, episode_return: Tensor, *, gamma: float, smoothing: bool = False
) -> Tensor:
    """Q_k = ρ_k γ^{T−k} R, T − k = turns still to come; smoothed ½Q_k + ½Q_{k+1}, the last turn's Q as it is.

    Args:
        ratio: ρ_k, (S,) float.
        episode: episode of each segment, (S,) int.
        turn: k, (S,) int.
        episode_return: R of the segment's episode, (S,) float.
        gamma: γ in (0, 1].
        smoothing: average with the next turn's.

    Returns:
        (S,) float64.

    Example:
        >>> one, turns = torch.ones(2), torch.tensor([0, 1])
        >>> hindsight_value(one, torch.zeros_like(turns), turns, 4 * one, gamma=0.5).tolist()
        [2.0, 4.0]
    """
    sizes = expect(ratio, "S", "float", name="ratio")
    for name, column in (("episode", episode), ("turn", turn)):
        expect(column, "S", "int", name=name, **sizes)
    if not len(ratio):
        return ratio.double()
    _, last = segment_extent(turn.double(), episode, index_size(episode))
    value = ratio.double() * gamma ** (last[episode] - turn) * episode_return.double()
    if not smoothing:
        return value
    order = torch.argsort(episode * (turn.max() + 1) + turn)
    here, there = order[:-1], order[1:]
    same = episode[here] == episode[there]
    smooth = value.clone()
    smooth[here[same]] = 0.5 * value[here[same]] + 0.5 * value[there[same]]
    return smooth
