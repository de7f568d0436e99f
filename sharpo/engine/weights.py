"""Weights from the trainer into an engine: published once for each version, and every tensor exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from torch import Tensor

from sharpo.errors import EngineError
from sharpo.protocols import RolloutEngine


def publish(engine: RolloutEngine, version: int, named_weights: Callable[[], Iterable[tuple[str, Tensor]]]) -> bool:
    """Bring an engine to a version of the weights; every rank calls it. Return whether anything was loaded.

    Args:
        engine: the engine of this rank.
        version: of the policy's weights now.
        named_weights: gives (Hugging Face name, full tensor); a collective under sharding, called only when needed,
            which is on all ranks or on none because their engines move together.
    """
    if engine.version == version:
        return False
    engine.load_weights(version, named_weights())
    if engine.version != version:
        raise EngineError(f"the engine reports version {engine.version} after version {version} was published")
    return True


def checkpoint_names(names: Iterable[str], fused: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return the checkpoint's parameter names for an engine's, fused ones taken apart.

    Example:
        >>> sorted(checkpoint_names(["layers.0.qk_proj.weight", "norm.weight"], {"qk_proj": ["q_proj", "k_proj"]}))
        ['layers.0.k_proj.weight', 'layers.0.q_proj.weight', 'norm.weight']
    """
    found: set[str] = set()
    for name in names:
        parts = name.split(".")
        at = next((n for n, part in enumerate(parts) if part in fused), None)
        if at is None:
            found.add(name)
        else:
            found.update(".".join([*parts[:at], piece, *parts[at + 1 :]]) for piece in fused[parts[at]])
    return frozenset(found)


def check_coverage(expected: Collection[str], given: Sequence[str]) -> None:
    """Refuse weights that do not set every parameter of the engine exactly once.

    Raises:
        EngineError: names that are missing, unknown or given twice.

    Example:
        >>> check_coverage({"a", "b"}, ["a", "b"])
    """
    counts = Counter(given)
    missing = sorted(set(expected) - counts.keys())
    strange = sorted(counts.keys() - set(expected))
    twice = sorted(name for name, count in counts.items() if count > 1)
    for names, what in ((missing, "were not given"), (strange, "are unknown to it"), (twice, "were given twice")):
        if names:
            raise EngineError(
                f"weights for the engine: {len(names)} tensors {what} (first: {names[0]}): the engine's "
                "configuration and the policy's weights must be of one model"
            )
