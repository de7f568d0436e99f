"""Which steps started from the same state, and how much better one of them did than the others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

import torch
from torch import Tensor

from sharpo.functional.segment_ops import index_size, segment_count, segment_extent, segment_mean, segment_sum
from sharpo.shapes import expect


def exact_anchors(keys: Sequence[Hashable]) -> Tensor:
    """Number the distinct keys 0, 1, 2 ... in the order in which they appear, (S,) int.

    Example:
        >>> exact_anchors(["kitchen", "hall", "kitchen"]).tolist()
        [0, 1, 0]
    """
    number: dict[Hashable, int] = {}
    return torch.tensor([number.setdefault(key, len(number)) for key in keys], dtype=torch.int64)


def similar_anchors(texts: Sequence[str], threshold: float) -> Tensor:
    """Give each text the number of the first cluster whose *first member* it resembles, else a new one, (S,) int.

    Resemblance is difflib's ratio 2M/(|a| + |b|), M = characters in matching blocks, without its heuristic that
    ignores frequent characters of texts from 200 characters on. Bounds from above come first (lengths, then letter
    counts, then the longest common subsequence), so most pairs are refused cheaply and none wrongly.

    Args:
        texts: S texts.
        threshold: ratio from which two texts are the same state, in (0, 1].

    Example:
        >>> similar_anchors(["You see a mug 1.", "You see a mug 2.", "Nothing happens."], 0.9).tolist()
        [0, 0, 1]
    """
    firsts: list[str] = []
    known: dict[str, int] = {}
    for text in texts:
        if text not in known:
            known[text] = _first_cluster(text, firsts, threshold)
            if known[text] == len(firsts):
                firsts.append(text)
    return torch.tensor([known[text] for text in texts], dtype=torch.int64)


def _first_cluster(text: str, firsts: list[str], threshold: float) -> int:
    """Return the first cluster that ``text`` belongs to; the number of clusters when it begins a new one."""
    matcher = SequenceMatcher(None, "", text, autojunk=False)
    places: dict[str, int] = {}
    for i, letter in enumerate(text):
        places[letter] = places.get(letter, 0) | 1 << i
    for number, first in enumerate(firsts):
        matcher.set_seq1(first)
        if (
            matcher.real_quick_ratio() >= threshold
            and matcher.quick_ratio() >= threshold
            and 2 * _common_letters(first, places, len(text)) / (len(first) + len(text)) >= threshold
            and matcher.ratio() >= threshold
        ):
            return number
    return len(firsts)


def _common_letters(first: str, places: dict[str, int], size: int) -> int:
    """Return the length of the longest common subsequence: matching blocks keep their order, so M is no longer.

    Bit-parallel: ``row`` has a 0 wherever the table's entry grows by one (Hyyrö 2004).
    """
    full = (1 << size) - 1
    row = full
    for letter in first:
        match = row & places.get(letter, 0)
        row = ((row + match) | (row - match)) & full
    return size - row.bit_count()


def alone(anchor: Tensor) -> Tensor:
    """Return which steps share their anchor with no other, (S,) bool: they have no step advantage."""
    return segment_count(anchor, index_size(anchor))[anchor] == 1


def discounted_returns(rewards: Tensor, episode: Tensor, gamma: float) -> Tensor:
    """R_k = r_k + γ R_{k+1} inside each episode, (S,) float.

    Args:
        rewards: r_k, (S,) float; the turns of an episode in order.
        episode: episode of each turn, (S,) int.
        gamma: γ in [0, 1].

    Example:
        >>> discounted_returns(torch.tensor([0.0, 1.0, 4.0]), torch.tensor([0, 0, 1]), 0.5).tolist()
        [0.5, 1.0, 4.0]
    """
    expect(episode, "S", "int", name="episode", **expect(rewards, "S", "float", name="rewards"))
    later: dict[int, float] = {}
    out = rewards.tolist()
    for k, member in reversed(list(enumerate(episode.tolist()))):
        out[k] += gamma * later.get(member, 0.0)
        later[member] = out[k]
    return rewards.new_tensor(out)


def relative_to_slot(
    values: Tensor,
    slot: Tensor,
    mask: Tensor | None = None,
    *,
    norm_by_std: bool = True,
    correction: int = 1,
    eps: float = 1e-6,
) -> Tensor:
    """A_k = (R_k − μ)/(σ + ε), μ and σ over the entries of k's slot: 0 in a slot of one or of equal values.

    Args:
        values: R_k, (S,) float.
        slot: what is compared with what, (S,) int.
        mask: entries that count, (S,) bool; the others get 0. None = all.
        norm_by_std: divide by σ + ε.
        correction: 1 = unbiased variance (n − 1), 0 = population variance.
        eps: ε.

    Returns:
        (S,) float64.

    Example:
        >>> relative_to_slot(torch.tensor([9.5, 0.0, 3.0]), torch.tensor([0, 0, 1]), norm_by_std=False).tolist()
        [4.75, -4.75, 0.0]
    """
    sizes = expect(values, "S", "float", name="values")
    expect(slot, "S", "int", name="slot", **sizes)
    counted = torch.ones_like(slot, dtype=torch.bool) if mask is None else mask
    exact, slots = values.detach().double(), index_size(slot)
    low, high = segment_extent(exact, slot, slots, counted)
    flat = (low >= high)[slot]
    centred = torch.where(counted & ~flat, exact - segment_mean(exact, slot, slots, counted)[slot], 0.0)
    if not norm_by_std:
        return centred
    divisor = (segment_count(slot, slots, counted).double() - correction).clamp(min=1)
    std = (segment_sum(centred.square(), slot, slots, counted) / divisor).sqrt()
    return centred / (std + eps)[slot]
