"""One seed tree, no global state."""

from __future__ import annotations

import hashlib
import random


def derive(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed for a named place under a run's seed.

    ``derive(s, a, b)`` is the first 8 bytes of SHA-256 over the path, so it is the same on every machine and
    process, and two different paths practically never collide.

    Args:
        seed: the run's seed.
        *names: the path, for example ``"rollout", version, task.id, member, turn``.

    Example:
        >>> derive(0, "rollout", 3) == derive(0, "rollout", 3)
        True
        >>> derive(0, "a", "b") == derive(0, "ab")
        False
    """
    path = "\x1f".join([repr(int(seed)), *(f"{type(name).__name__}:{name}" for name in names)])
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "big") >> 1


def fixed_order(split: str, count: int) -> list[int]:
    """Return the places of a finite split in one random order, the same for every panel, choice of games and run.

    Args:
        split: its name.
        count: its tasks.

    Example:
        >>> sorted(fixed_order("val", 5)) == [0, 1, 2, 3, 4], fixed_order("val", 5) == fixed_order("val", 5)
        (True, True)
    """
    order = list(range(count))
    random.Random(derive(0, "panel", split)).shuffle(order)  # noqa: S311
    return order
