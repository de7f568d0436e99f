"""From character ranges of a text to ranges of the tokens that made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Decode = Callable[[Sequence[int]], str]


def _shared(a: str, b: str) -> int:
    """Return the length of the longest common prefix."""
    limit = min(len(a), len(b))
    if a[:limit] == b[:limit]:
        return limit
    return next(i for i in range(limit) if a[i] != b[i])


def token_chars(ids: Sequence[int], decode: Decode) -> list[tuple[int, int]]:
    """Return the half-open range of characters of ``decode(ids)`` that each token made.

    Tokens that only together make one character (bytes of a UTF-8 sequence) all get that character.

    Args:
        ids: token ids, (L,).
        decode: token ids to text.

    Example:
        >>> words = ["go", "to", "box"]
        >>> token_chars([0, 1, 2], lambda ids: " ".join(words[i] for i in ids))
        [(0, 2), (2, 5), (5, 9)]
    """
    if not ids:
        return []
    text = decode(ids)
    pieces = [decode([i]) for i in ids]
    if "".join(pieces) == text:
        stops = []
        for piece in pieces:
            stops.append((stops[-1] if stops else 0) + len(piece))
    else:
        stops = [_shared(decode(ids[: i + 1]), text) for i in range(len(ids))]
    stops[-1] = len(text)
    starts = [0, *stops[:-1]]
    ranges = []
    for i, start in enumerate(starts):
        stop = next((later for later in stops[i:] if later > start), stops[i])
        ranges.append((start, stop))
    return ranges


def token_spans(ids: Sequence[int], chars: Mapping[str, tuple[int, int]], decode: Decode) -> dict[str, tuple[int, int]]:
    """Return the half-open range of the tokens that overlap each named range of characters, outer white space aside.

    Args:
        ids: token ids whose text ``decode(ids)`` the ranges refer to, (L,).
        chars: half-open character ranges by name.
        decode: token ids to text.

    Returns:
        Token ranges by name; a name whose characters no token overlaps is left out.

    Example:
        >>> words = ["go", "to", "box"]
        >>> token_spans([0, 1, 2], {"action": (3, 9)}, lambda ids: " ".join(words[i] for i in ids))
        {'action': (1, 3)}
    """
    if not chars or not ids:
        return {}
    text, ranges = decode(ids), token_chars(ids, decode)
    spans: dict[str, tuple[int, int]] = {}
    for name, (begin, end) in chars.items():
        part = text[begin:end]
        low, high = begin + len(part) - len(part.lstrip()), begin + len(part.rstrip())
        inside = [i for i, (start, stop) in enumerate(ranges) if start < high and stop > low and stop > start]
        if inside and high > low:
            spans[name] = (inside[0], inside[-1] + 1)
    return spans
