"""Lucene's one-byte document lengths."""

from __future__ import annotations

import numpy as np

_EXACT = 24
"""Lengths below this are kept as they are: 255 minus the code of the largest 32-bit number."""


def decoded_length(length: int) -> int:
    """Return a length as Lucene remembers it: exact below 40, then its four leading bits, rounded down.

    Source: Lucene, ``SmallFloat.intToByte4`` and ``byte4ToInt``.

    Example:
        >>> [decoded_length(n) for n in (0, 39, 41, 237, 1000)]
        [0, 39, 40, 232, 984]
    """
    if length < _EXACT:
        return length
    rest = length - _EXACT
    shift = max(0, rest.bit_length() - 4)
    return _EXACT + ((rest >> shift) << shift)


def decoded_lengths(lengths: np.ndarray) -> np.ndarray:
    """Return every length as Lucene remembers it, (N,) float32."""
    values, places = np.unique(lengths, return_inverse=True)
    return np.array([decoded_length(int(value)) for value in values], np.float32)[places]
