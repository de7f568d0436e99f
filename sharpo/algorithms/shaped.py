"""What all multiplicative shapers share: a mixing weight, its schedule, and a teacher."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from torch import Tensor

from sharpo.algorithms.grpo import Grpo
from sharpo.errors import ConfigError
from sharpo.segments import Segments

SCHEDULE = re.compile(r"constant|linear_to_zero\(([1-9]\d*)\)")


def one_of(value: object, kind: object, name: str) -> None:
    """Refuse a value that is not among a Literal's.

    Raises:
        ConfigError: naming the knob, the value and the choices.
    """
    if value not in get_args(kind):
        raise ConfigError(f"algorithm.{name} must be one of {', '.join(get_args(kind))}; got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Shaped(Grpo):
    """A_eff = A · [(1 − λ) + λ w]: the base advantage, reweighted by what the teacher thinks of a token or a segment.

    λ = 0, no hint, or equal contexts give the base advantage bit for bit; the sign of A is kept.

    Args:
        lam: mixing weight λ in [0, 1].
        lambda_schedule: ``constant`` or ``linear_to_zero(N)``: λ·max(0, 1 − iteration/N).
    """

    lam: float = 0.2
    lambda_schedule: str = "constant"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.lam <= 1:
            raise ConfigError(f"algorithm.lam must be in [0, 1]: above 1 the sign could flip; got {self.lam}")
        if not SCHEDULE.fullmatch(self.lambda_schedule):
            raise ConfigError(
                f"algorithm.lambda_schedule must be constant or linear_to_zero(N) with N >= 1 iterations; "
                f"got {self.lambda_schedule!r}"
            )

    @property
    def needs_teacher(self) -> bool:
        """True unless λ = 0."""
        return self.lam > 0

    def teaches_at(self, iteration: int) -> bool:
        """Return False once the schedule has taken λ to 0: the teacher's pass is then left out."""
        return self.lambda_at(iteration) > 0

    def lambda_at(self, iteration: int) -> float:
        """λ of an iteration (0 = the first)."""
        match = SCHEDULE.fullmatch(self.lambda_schedule)
        steps = match.group(1) if match else None
        return self.lam if steps is None else self.lam * max(0.0, 1.0 - iteration / int(steps))

    def teacher_reads(self, segments: Segments) -> Tensor:
        """Return the segments whose rows the teacher scores: those that may be reweighted, (S,) bool."""
        return super().teacher_reads(segments) & self._selected(segments)

    def _selected(self, segments: Segments) -> Tensor:
        """Return which segments may be reweighted, (S,) bool; a method with a selection of its own overrides it."""
        return segments.hinted if self.acts_on_tokens else segments.selected
