"""RLSD: the verifier says in which direction, a teacher that knows more says how far, token by token."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sharpo.algorithms.shaped import Shaped
from sharpo.batch import Batch, Scores
from sharpo.errors import ConfigError
from sharpo.functional.token_credit import scored_tokens, token_multiplier
from sharpo.segments import Segments


@dataclass(frozen=True, kw_only=True)
class Rlsd(Shaped):
    """A_eff,t = A · [(1 − λ) + λ w_t], w_t = clip(exp(sign(A)·Δ_t), 1 − α, 1 + α) (arXiv 2604.03128).

    Δ_t = log π(y_t | context + hint) − log π(y_t | context) of every sampled token, also of turns without an action.

    Args:
        lam: λ of the first iteration, in [0, 1].
        lambda_schedule: ``constant`` or ``linear_to_zero(N)``; when λ is 0 the run is GRPO.
        alpha: half-width α of the clip, in (0, 1].
    """

    lam: float = 0.5
    lambda_schedule: str = "linear_to_zero(100)"
    alpha: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.alpha <= 1:
            raise ConfigError(f"algorithm.alpha must be in (0, 1]: no weight is negative; got {self.alpha}")

    @property
    def acts_on_tokens(self) -> bool:
        """True: every sampled token has its own weight."""
        return True

    def token_advantages(
        self, batch: Batch, scores: Scores, segments: Segments, credit: Tensor, iteration: int
    ) -> Tensor:
        """Return A_eff of every token, (B, T) float.

        Raises:
            ValueError: when an episode has a hint, λ is not 0 and no teacher was run.
        """
        base = super().token_advantages(batch, scores, segments, credit, iteration)
        lam = self.lambda_at(iteration)
        if lam == 0 or not bool(segments.hinted.any()):
            return base
        if scores.teacher_logp is None:
            raise ValueError("Scores.teacher_logp is None: score the hinted rows before RLSD's credit")
        mask = scored_tokens(segments.hinted, batch.segment_index, batch.action_mask, scores.teacher_logp)
        return base * token_multiplier(
            scores.old_logp, scores.teacher_logp, base, mask, kind="exp", alpha=self.alpha, lam=lam
        )
