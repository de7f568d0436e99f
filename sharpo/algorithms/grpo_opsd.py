"""GRPO with on-policy self-distillation: the policy loss, and a pull towards the policy that sees a hint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from sharpo.algorithms.auxiliary import Auxiliary, sampled
from sharpo.algorithms.shaped import one_of
from sharpo.batch import Batch, PolicyOutput, Scores
from sharpo.errors import ConfigError
from sharpo.functional.distill import gated_surrogate, sampled_policy_gradient

Loss = Literal["sampled_pg", "repo_surrogate"]


@dataclass(frozen=True, kw_only=True)
class GrpoOpsd(Auxiliary):
    """L = agg( L_GRPO + coef · L_OPSD ).

    ``sampled_pg``: −sg(log π_T − log π) · log π, whose expected gradient is that of KL(π ‖ π_T).
    ``repo_surrogate``: σ(β·gap) · (log π_T − log π); with β = 0, the form of the public code, its gradient is −½ on
    every sampled token whatever the teacher says.

    Args:
        coef: weight of the term; 0.01 in the published runs.
        loss: which term.
        gate_beta: β >= 0 of ``repo_surrogate``, per nat; 0 in the published runs.
    """

    loss: Loss = "sampled_pg"
    gate_beta: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.loss, Loss, "loss")
        if not self.gate_beta >= 0:
            raise ConfigError(f"algorithm.gate_beta must be >= 0, got {self.gate_beta}")
        if self.gate_beta > 0 and self.loss != "repo_surrogate":
            raise ConfigError(f"algorithm.gate_beta={self.gate_beta} goes with loss=repo_surrogate, not {self.loss}")

    def terms(
        self, output: PolicyOutput, scores: Scores, batch: Batch, taught: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the term of each token and the gap log π_T − log π."""
        del batch
        logp, teacher_logp = sampled(output, scores, taught)
        gap_t = {"teacher_gap": teacher_logp - logp}
        if self.loss == "repo_surrogate":
            return gated_surrogate(logp, teacher_logp, self.gate_beta).loss, gap_t
        return sampled_policy_gradient(logp, teacher_logp), gap_t
