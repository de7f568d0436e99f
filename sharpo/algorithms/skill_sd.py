"""Skill-SD: GRPO, and a pull towards a teacher that reads skills, by the k3 estimate of their divergence."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sharpo.algorithms.auxiliary import Auxiliary, sampled
from sharpo.batch import Batch, PolicyOutput, Scores
from sharpo.functional.distill import weighted_k3
from sharpo.functional.masked import masked_fill


@dataclass(frozen=True, kw_only=True)
class SkillSd(Auxiliary):
    """L = agg( L_GRPO + coef · ρ_t (eᵈ − 1 − d) ),  d = log π_T − log π,  ρ = π/π_old (SDAR's public code).

    Unlike SDAR's, the term pushes a token down where the teacher likes it less than the policy does.

    Args:
        coef: weight of the term; 0.001 in the published runs.
    """

    coef: float = 0.001

    def terms(
        self, output: PolicyOutput, scores: Scores, batch: Batch, taught: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted k3 of each token and the gap log π_T − log π."""
        del batch
        logp, teacher_logp = sampled(output, scores, taught)
        loss_t = weighted_k3(logp, masked_fill(scores.old_logp, taught), teacher_logp)
        return loss_t, {"teacher_gap": teacher_logp - logp}
