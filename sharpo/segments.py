"""The flat table of segments: one row for each turn of each episode on this rank."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from sharpo.shapes import expect


@dataclass(frozen=True)
class Segments:
    """S segments as a struct of arrays; segment ``s`` is the action of one turn.

    Args:
        group: index of the episode's group on this rank, (S,) int.
        episode: index of the episode on this rank, (S,) int.
        turn: turn number inside the episode, (S,) int.
        length: tokens of the span n_k, (S,) int; 0 for a turn without an action.
        success: the episode succeeded, (S,) bool.
        episode_return: the episode's return R, penalties left out, (S,) float, in the environment's units.
        hinted: the episode has a hint, so teacher and student contexts differ, (S,) bool.
        base: base advantage A_k, (S,) float.
        selected: may be reweighted (hinted and length > 0), (S,) bool.
        student_logp: sum over the span of log pi_S in nats, (S,) float; None before scoring.
        teacher_logp: sum over the span of log pi_T in nats, (S,) float; None before scoring or without a teacher.
            Meaningful only where ``selected``.
    """

    group: Tensor
    episode: Tensor
    turn: Tensor
    length: Tensor
    success: Tensor
    episode_return: Tensor
    hinted: Tensor
    base: Tensor
    selected: Tensor
    student_logp: Tensor | None = None
    teacher_logp: Tensor | None = None

    def __post_init__(self) -> None:
        sizes = expect(self.group, "S", "int", name="Segments.group")
        for name in ("episode", "turn", "length"):
            expect(getattr(self, name), "S", "int", name=f"Segments.{name}", **sizes)
        for name in ("success", "hinted", "selected"):
            expect(getattr(self, name), "S", "bool", name=f"Segments.{name}", **sizes)
        for name in ("episode_return", "base"):
            expect(getattr(self, name), "S", "float", name=f"Segments.{name}", **sizes)
        for name in ("student_logp", "teacher_logp"):
            if getattr(self, name) is not None:
                expect(getattr(self, name), "S", "float", name=f"Segments.{name}", **sizes)

    def __len__(self) -> int:
        return int(self.group.shape[0])

    def to(self, device: torch.device | str) -> Segments:
        """Return the table on another device."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        moved: dict[str, Any] = {name: None if x is None else x.to(device) for name, x in columns.items()}
        return Segments(**moved)

    def scored(self, student_logp: Tensor, teacher_logp: Tensor | None) -> Segments:
        """Return the table with its log-probability sums."""
        return replace(self, student_logp=student_logp, teacher_logp=teacher_logp)
