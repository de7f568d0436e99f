"""GRPO with on-policy self-distillation: the policy loss, and a pull towards the policy that sees a hint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sharpo.algorithms.auxiliary import Auxiliary, sampled
from sharpo.algorithms.shaped import one_of
from sharpo.batch import Batch, Divergence, PolicyOutput, Scores
from sharpo.errors import ConfigError
from sharpo.functional.distill import gated_surrogate, sampled_policy_gradient
from sharpo.ranges import refuse_unread

Loss = Literal["sampled_pg", "repo_surrogate", "jsd_full", "jsd_topk"]


@dataclass(frozen=True, kw_only=True)
class GrpoOpsd(Auxiliary):
    """L = agg( L_GRPO + coef · L_OPSD ).

    ``sampled_pg``: −sg(log π_T − log π) · log π, whose expected gradient is that of KL(π ‖ π_T).
    ``repo_surrogate``: σ(β·gap) · (log π_T − log π); with β = 0, the form of the public code, its gradient is −½ on
    every sampled token whatever the teacher says.
    ``jsd_full`` and ``jsd_topk``: JSD_β between the two next-token distributions, over the vocabulary or over the
    teacher's likeliest tokens and the rest as one; the teacher then runs in every micro-batch and not at scoring.

    Args:
        coef: weight of the term; 0.01 in the published runs.
        loss: which term.
        gate_beta: β >= 0 of ``repo_surrogate``, per nat; 0 in the published runs.
        jsd_beta: β of the two jsd losses, in (0, 1): the teacher's weight in the mixture.
        top_k: K >= 1 tokens of ``jsd_topk``.
    """

    loss: Loss = "sampled_pg"
    gate_beta: float = 0.0
    jsd_beta: float = 0.5
    top_k: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.loss, Loss, "loss")
        if not self.gate_beta >= 0:
            raise ConfigError(f"algorithm.gate_beta must be >= 0, got {self.gate_beta}")
        if not 0 < self.jsd_beta < 1:
            raise ConfigError(f"algorithm.jsd_beta must be strictly between 0 and 1, got {self.jsd_beta}")
        if self.top_k < 1:
            raise ConfigError(f"algorithm.top_k must be >= 1; for all tokens use loss=jsd_full; got {self.top_k}")
        if self.loss != "repo_surrogate":
            refuse_unread("algorithm", type(self), {"gate_beta": self.gate_beta}, "loss=repo_surrogate")
        if not self.loss.startswith("jsd"):
            refuse_unread("algorithm", type(self), {"jsd_beta": self.jsd_beta}, "loss=jsd_full or jsd_topk")
        if self.loss != "jsd_topk":
            refuse_unread("algorithm", type(self), {"top_k": self.top_k}, "loss=jsd_topk")

    @property
    def divergence(self) -> Divergence | None:
        """What the two jsd losses compare; None for the others, and with coefficient 0."""
        if self.coef == 0 or not self.loss.startswith("jsd"):
            return None
        return Divergence(self.top_k if self.loss == "jsd_topk" else 0, self.jsd_beta)

    def teaches_at(self, iteration: int) -> bool:
        """Return False when the teacher runs in the update instead of at scoring."""
        return super().teaches_at(iteration) and self.divergence is None

    def taught(self, scores: Scores, batch: Batch) -> Tensor:
        """Return which tokens have a teacher, (B, T) bool: with a jsd loss those of the rows with a hint."""
        if self.divergence is None:
            return super().taught(scores, batch)
        if batch.teacher_attention is None:
            return torch.zeros_like(batch.action_mask)
        return batch.action_mask & batch.teacher_attention.any(1, keepdim=True)

    def terms(
        self, output: PolicyOutput, scores: Scores, batch: Batch, taught: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the term of each token and, of sampled ones, the gap log π_T − log π.

        Raises:
            ValueError: when a jsd loss gets no divergence from the policy.
        """
        del batch
        if self.divergence is not None:
            if output.divergence is None:
                raise ValueError(f"PolicyOutput.divergence is None but loss={self.loss}: compare with the teacher")
            return output.divergence, {}
        logp, teacher_logp = sampled(output, scores, taught)
        gap_t = {"teacher_gap": teacher_logp - logp}
        if self.loss == "repo_surrogate":
            return gated_surrogate(logp, teacher_logp, self.gate_beta).loss, gap_t
        return sampled_policy_gradient(logp, teacher_logp), gap_t
