"""What all auxiliary losses share: a coefficient, a teacher of every sampled token, and untouched advantages."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sharpo.algorithms.grpo import Grpo
from sharpo.batch import Batch, PolicyOutput, Scores
from sharpo.errors import ConfigError
from sharpo.functional.masked import masked_fill


@dataclass(frozen=True, kw_only=True)
class Auxiliary(Grpo):
    """L = agg( L_GRPO + coef · L_aux ): GRPO's advantages and loss, and a term on every token that has a teacher.

    Tokens of rows without a hint add 0 to the sum; the divisor is the update's, as for the policy loss.

    Args:
        coef: weight of the term; 0 is GRPO, without a teacher.
    """

    coef: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.coef >= 0:
            raise ConfigError(f"algorithm.coef must be >= 0, got {self.coef}")

    @property
    def needs_teacher(self) -> bool:
        """True unless the coefficient is 0."""
        return self.coef > 0

    @property
    def teaches_uncredited(self) -> bool:
        """True: the term acts whatever the advantage is."""
        return True

    @property
    def acts_on_tokens(self) -> bool:
        """True: every sampled token has its term."""
        return True

    def taught(self, scores: Scores, batch: Batch) -> Tensor:
        """Return which tokens have a teacher, (B, T) bool.

        Raises:
            ValueError: when the batch was scored without one.
        """
        if scores.teacher_logp is None:
            raise ValueError(f"Scores.teacher_logp is None but {type(self).__name__} has coef > 0: score the teacher")
        return batch.action_mask & ~scores.teacher_logp.isnan()

    def terms(
        self, output: PolicyOutput, scores: Scores, batch: Batch, taught: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return L_aux of each token, (B, T), finite and meaningful where ``taught``, and what to log, (B, T) each."""
        raise NotImplementedError(f"{type(self).__name__} must define terms")

    def loss_terms(self, output: PolicyOutput, scores: Scores, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return GRPO's loss of each token plus coef times the term, (B, T), and what to log of each token."""
        loss_t, metrics_t = super().loss_terms(output, scores, batch)
        if not self.needs_teacher:
            return loss_t, metrics_t
        taught = self.taught(scores, batch)
        term_t, more_t = self.terms(output, scores, batch, taught)
        term_t = masked_fill(term_t, taught)
        own = {"auxiliary_loss": term_t, "taught_share": taught.float()}
        own |= {name: masked_fill(x, taught) for name, x in more_t.items()}
        return loss_t + self.coef * term_t, metrics_t | own


def sampled(output: PolicyOutput, scores: Scores, taught: Tensor) -> tuple[Tensor, Tensor]:
    """Return the current log π with its gradient, and log π_T, (B, T) each; 0 where there is no teacher."""
    assert scores.teacher_logp is not None
    return masked_fill(output.logp, taught), masked_fill(scores.teacher_logp, taught).to(torch.float32)
