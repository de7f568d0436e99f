"""SDAR: GRPO, and a pull on every sampled token that is gated by how much the teacher likes it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sharpo.algorithms.auxiliary import Auxiliary, sampled
from sharpo.batch import Batch, PolicyOutput, Scores
from sharpo.errors import ConfigError
from sharpo.functional.distill import gated_surrogate


@dataclass(frozen=True, kw_only=True)
class Sdar(Auxiliary):
    """L = agg( L_GRPO + coef · g_t (log π_T − log π) ),  g_t = σ(β (log π_T − log π)) detached (arXiv 2605.15155).

    The gate looks at the policy of this very micro-batch, not of scoring time. The gradient of the term is −g_t per
    token: it never pushes a token down.

    Args:
        coef: weight of the term; 0.01 in the published runs.
        gate_beta: β >= 0, steepness of the gate per nat; 5 in the published runs.
    """

    gate_beta: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.gate_beta >= 0:
            raise ConfigError(f"algorithm.gate_beta must be >= 0, got {self.gate_beta}")

    def terms(
        self, output: PolicyOutput, scores: Scores, batch: Batch, taught: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the gated term of each token, its gate and the gap log π_T − log π."""
        del batch
        logp, teacher_logp = sampled(output, scores, taught)
        loss_t, gate_t = gated_surrogate(logp, teacher_logp, self.gate_beta)
        return loss_t, {"gate": gate_t, "teacher_gap": teacher_logp - logp}
