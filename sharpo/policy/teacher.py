"""Which weights the teacher has: the policy's own, the initial ones, or a copy that follows the policy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from sharpo.errors import ConfigError, DataError

_FORM = re.compile(r"(shared|frozen)|(stale)\(([1-9]\d*)\)|(ema)\((0?\.\d+)\)")


@dataclass(frozen=True, slots=True)
class TeacherWeights:
    """``shared``, ``frozen``, ``stale`` with the iterations between two refreshes, or ``ema`` with its decay μ."""

    kind: Literal["shared", "frozen", "stale", "ema"]
    number: float = 0.0

    @classmethod
    def parse(cls, text: str) -> TeacherWeights:
        """Read ``shared``, ``frozen``, ``stale(N)`` or ``ema(0.99)``.

        Raises:
            ConfigError: for anything else.

        Example:
            >>> TeacherWeights.parse("stale(10)")
            TeacherWeights(kind='stale', number=10.0)
        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise ConfigError(
                f"teacher={text!r} must be shared (the policy itself), frozen (its initial weights), stale(N) (a copy "
                "renewed every N iterations) or ema(D) (a copy that moves by 1 - D each iteration), 0 < D < 1"
            )
        plain, stale, every, _, decay = found.groups()
        if plain:
            return cls(plain)  # type: ignore[arg-type]
        if stale:
            return cls("stale", float(every))
        if not float(decay) > 0:
            raise ConfigError(f"teacher={text!r}: a decay of 0 is the policy itself; use teacher=shared")
        return cls("ema", float(decay))

    @property
    def follows(self) -> bool:
        """True when the teacher is a copy that is kept, moved and saved."""
        return self.kind in ("stale", "ema")

    @torch.no_grad()
    def follow(self, teacher: nn.Module, policy: nn.Module, iteration: int) -> None:
        """Move the copy at the start of an iteration, before it scores: θ_T ← θ, or θ_T ← μ θ_T + (1 − μ) θ.

        Args:
            teacher: the copy, sharded as the policy is; changed in place.
            policy: the policy.
            iteration: counts from 0, where the copy is renewed in any case.
        """
        if self.kind == "stale" and iteration % int(self.number):
            return
        share = 1.0 - self.number if self.kind == "ema" and iteration > 0 else 1.0
        for mine, other in zip(teacher.parameters(), policy.parameters(), strict=True):
            if share == 1.0:
                _local(mine).copy_(_local(other))
            else:
                _local(mine).lerp_(_local(other), share)


def _local(parameter: Tensor) -> Tensor:
    """Return this rank's piece of a parameter; sharing its memory."""
    data = parameter.detach()
    return data.to_local() if isinstance(data, DTensor) else data


def refuse_other_teacher(kept: bool, teacher: nn.Module | None) -> None:
    """Compare what a checkpoint says of its teacher with the teacher of this run.

    Raises:
        DataError: one has a copy of its own and the other has not.
    """
    if kept != (teacher is not None):
        there, here = ("holds a", "keeps none") if kept else ("holds no", "keeps one")
        raise DataError(
            f"the checkpoint {there} copy of the weights for the teacher and this run {here}: use the value of teacher "
            "that the checkpoint was trained with"
        )
