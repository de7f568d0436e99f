"""Plain values against the type hints of the constructors that they are for, before anything is constructed."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from sharpo import ranges
from sharpo.errors import ConfigError

_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    type(None): "null",
    Path: "a path",
}


def check(config: Mapping[str, Any]) -> None:
    """Compare every value of a configuration with the type hint of the constructor that takes it, its range included.

    So a part that is built late, or not at all (``debug=plan``), is judged as well. A constructor without hints is not.
    What stands twice (``policy_loss`` inside ``algorithm``) is reported under its own group.

    Args:
        config: the composed configuration as plain values.

    Raises:
        ConfigError: naming the field, the value and the type, or a ``_target_`` that cannot be imported.
    """
    shared = [node for node in config.values() if isinstance(node, Mapping) and "_target_" in node]
    for name, node in sorted(config.items(), key=lambda item: item[0] == "algorithm"):
        _walk(name, node, shared)


def _walk(field: str, node: Any, shared: Sequence[Any]) -> None:
    if not isinstance(node, Mapping):
        return
    hints = _hints(field, node["_target_"]) if "_target_" in node else {}
    for name, value in node.items():
        inner = f"{field}.{name}"
        if isinstance(value, Mapping) and not ("." in inner and any(value is own or value == own for own in shared)):
            _walk(inner, value, shared)
        if name in hints and not fits(value, hints[name]):
            raise ConfigError(f"{inner} must be {words(hints[name])}, got {value!r}")
    for fault in ranges.outside(node, hints):
        raise ConfigError(f"{field}.{fault}")


def resolve(target: str, field: str = "_target_") -> Any:
    """Return the class or function that a dotted name means.

    Args:
        target: ``package.module.name``.
        field: its name in the message.

    Raises:
        ConfigError: with the reason, when it cannot be imported.
    """
    place, _, name = str(target).rpartition(".")
    try:
        return getattr(importlib.import_module(place), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{field}={target} cannot be imported: {error}") from error


def value_of(node: Mapping[str, Any], name: str) -> Any:
    """Return a knob's value, or its default where no yaml sets it; None for a class without it.

    Example:
        >>> value_of({"_target_": "sharpo.rollout.panel.Panel", "split": "val"}, "samples")
        1
    """
    if name in node:
        return node[name]
    known = inspect.signature(resolve(node["_target_"])).parameters
    return known[name].default if name in known else None


def _hints(field: str, target: str) -> dict[str, Any]:
    made = resolve(target, f"{field}._target_")
    try:
        plain = inspect.isclass(made) and not dataclasses.is_dataclass(made)
        return typing.get_type_hints(made.__init__ if plain else made, include_extras=True)
    except (NameError, TypeError):  # hints for type checkers alone
        return {}


def fits(value: Any, hint: Any) -> bool:
    """Say whether a plain value can stand for a type hint; NaN fits none, and no plain value a protocol.

    Example:
        >>> fits(3, float), fits(2.5, int), fits(True, int), fits([0.9, 1], tuple[float, float]), fits("a", int | None)
        (True, False, False, True, False)
    """
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return fits(value, inside[0])
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inside)
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in inside)
    if isinstance(value, Mapping):
        return "_target_" in value or hint not in _WORDS
    if isinstance(value, list | tuple):
        return _fits_list(value, hint, origin, inside)
    if hint in (bool, int, str, type(None)) or hint is None:
        return type(value) is (type(None) if hint is None else hint)
    if hint is float:
        return type(value) in (int, float) and not math.isnan(value)
    kind = origin or hint
    if not inspect.isclass(kind) or kind is object:
        return True
    if getattr(kind, "_is_protocol", False):
        return False
    return issubclass(kind, Path) if isinstance(value, str) else isinstance(value, kind)


def _fits_list(value: Sequence[Any], hint: Any, origin: Any, inside: Sequence[Any]) -> bool:
    kind = origin or hint
    if not inspect.isclass(kind) or kind is object:
        return True
    if hint in _WORDS or not issubclass(kind, Iterable) or issubclass(kind, Mapping):
        return False
    if kind is tuple and inside and inside[-1] is not Ellipsis:
        return len(value) == len(inside) and all(map(fits, value, inside))
    return all(fits(one, inside[0]) for one in value) if inside else True


def words(hint: Any) -> str:
    """Put a type hint into words.

    Example:
        >>> words(int | None), words(Literal["k1", "k2", "k3"]), words(tuple[float, float])
        ('a whole number or null', 'k1, k2 or k3', 'a list of 2')
    """
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return words(inside[0])
    if origin in (Union, types.UnionType):
        plain = [one for one in inside if one in _WORDS or typing.get_origin(one) is not None] or list(inside)
        return " or ".join(dict.fromkeys(map(words, plain)))
    if origin is Literal:
        *most, last = dict.fromkeys(map(str, inside))
        return f"{', '.join(most)} or {last}" if most else last
    kind = origin or hint
    if hint in _WORDS:
        return _WORDS[hint]
    if kind is tuple and inside and inside[-1] is not Ellipsis:
        return f"a list of {len(inside)}"
    if inspect.isclass(kind) and issubclass(kind, Iterable) and not issubclass(kind, Mapping):
        return "a list"
    return f"a {kind.__name__}" if inspect.isclass(kind) else str(hint)
