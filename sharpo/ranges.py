"""What a knob may be: its range, written at the knob itself and checked before a run begins; unset where unread."""

from __future__ import annotations

import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ParamSpec, Union

from sharpo.errors import ConfigError

_P = ParamSpec("_P")


@dataclass(frozen=True)
class Within:
    """From ``low`` to ``high``, both allowed unless ``above`` (low itself is not) or ``below`` (high itself is not).

    Args:
        low: smallest value; None = no bound.
        high: largest value; None = no bound, and infinity is not a value; ``inf`` = it is one.
        above: ``low`` itself is excluded.
        below: ``high`` itself is excluded.

    Example:
        >>> Within(1).words(), Within(0, 1, above=True).words(), 0 in Within(0, 1, above=True), 0.5 in Within(0, 1)
        ('at least 1', 'above 0 and at most 1', False, True)
    """

    low: float | None = None
    high: float | None = None
    above: bool = False
    below: bool = False

    def __contains__(self, value: float) -> bool:
        if not math.isfinite(value) and value != self.high:
            return False
        low_enough = self.low is None or (value > self.low if self.above else value >= self.low)
        return low_enough and (self.high is None or (value < self.high if self.below else value <= self.high))

    def words(self) -> str:
        """Put the range into words."""
        low = [] if self.low is None else [f"{'above' if self.above else 'at least'} {self.low:g}"]
        high = [] if self.high in (None, math.inf) else [f"{'below' if self.below else 'at most'} {self.high:g}"]
        return " and ".join([*low, *high]) or "a finite number"


Count = Annotated[int, Within(1)]
"""A whole number of at least 1."""
Natural = Annotated[int, Within(0)]
"""A whole number of at least 0."""
Share = Annotated[float, Within(0, 1)]
"""A number from 0 to 1."""
Positive = Annotated[float, Within(0, above=True)]
"""A number above 0."""
NonNegative = Annotated[float, Within(0)]
"""A number of at least 0."""


def limits(hint: Any) -> Within | None:
    """Return the range that a type hint states, None without one.

    Example:
        >>> limits(Count | None), limits(int)
        (Within(low=1, high=None, above=False, below=False), None)
    """
    if typing.get_origin(hint) is Annotated:
        return next((note for note in hint.__metadata__ if isinstance(note, Within)), None)
    if typing.get_origin(hint) in (Union, types.UnionType):
        return next((found for one in typing.get_args(hint) if (found := limits(one)) is not None), None)
    return None


def outside(values: Mapping[str, Any], hints: Mapping[str, Any]) -> Iterator[str]:
    """Yield ``name=value: must be ...`` for every number that is infinite, or not in the range its hint states."""
    for name, value in values.items():
        limit = limits(hints.get(name)) or Within()
        if isinstance(value, int | float) and value not in limit:
            yield f"{name}={value}: must be {limit.words()}"


def check(part: str, values: Mapping[str, Any], made: Callable[..., Any]) -> None:
    """Refuse the first number that is outside of the range that ``made``, a function or a dataclass, states for it.

    Raises:
        ConfigError: naming the knob of ``part``, its value and the range.
    """
    for fault in outside(values, _hints(made)):
        raise ConfigError(f"{part}.{fault}")


def checked(part: str) -> Callable[[Callable[_P, None]], Callable[_P, None]]:
    """Let a constructor refuse numbers outside of the ranges that its hints state, before anything else.

    Args:
        part: what the knobs belong to in messages, for example ``engine``.
    """

    def wrap(make: Callable[_P, None]) -> Callable[_P, None]:
        signature = inspect.signature(make)

        @functools.wraps(make)
        def made(*args: _P.args, **kwargs: _P.kwargs) -> None:
            check(part, signature.bind(*args, **kwargs).arguments, make)
            make(*args, **kwargs)

        return made

    return wrap


def refuse_unread(part: str, made: Callable[..., Any], given: Mapping[str, Any], choice: str) -> None:
    """Refuse knobs that are set, that is, not at their defaults, although another choice leaves them unread.

    Args:
        part: what the knobs belong to in messages, for example ``hint``.
        made: the constructor, which states the defaults.
        given: the knobs that are not read, with their values.
        choice: what would read them.

    Raises:
        ConfigError: naming the first that is not at its default.
    """
    known = inspect.signature(made).parameters
    for name, value in given.items():
        if value != known[name].default:
            raise ConfigError(f"{part}.{name}={value} has no effect without {choice}: leave it out, or choose that")


@functools.cache
def _hints(made: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(made, include_extras=True)
