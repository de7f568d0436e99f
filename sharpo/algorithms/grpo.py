"""GRPO: every token of a turn gets how much better the turn's return is than its group's."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from sharpo.algorithms.base import Algorithm
from sharpo.algorithms.baseline import Baseline, turn_values
from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.batch import Batch, LossOutput, PolicyOutput, Scores
from sharpo.episode import EpisodeGroup
from sharpo.functional.aggregate import aggregate, token_share
from sharpo.functional.masked import masked_fill
from sharpo.functional.policy_loss import clipped_surrogate, kl_estimate


@dataclass(frozen=True, kw_only=True)
class Grpo(Algorithm):
    """A_k = (S_k − μ_g)/(σ_g + ε), S_k = the episode's return − the turn's own penalty (arXiv 2402.03300).

    Args:
        policy_loss: clip, KL, entropy and aggregation.
        baseline: what a return is compared with; see :class:`~sharpo.algorithms.baseline.Baseline`.
    """

    policy_loss: PolicyLoss
    baseline: Baseline = field(default_factory=Baseline)

    def __post_init__(self) -> None:
        """Check nothing here: the parts check themselves."""

    @property
    def needs_reference(self) -> bool:
        """True with a KL term."""
        return self.policy_loss.kl_coef > 0

    @property
    def needs_entropy(self) -> bool:
        """True with an entropy bonus."""
        return self.policy_loss.entropy_coef > 0

    def base_advantages(self, group: EpisodeGroup) -> Tensor:
        """Return A_k for each turn of each episode in order, (S_g,) float32."""
        return self.baseline.advantages(*turn_values(group)).float()

    def keeps(self, group: EpisodeGroup) -> bool:
        """Return False for a group without a difference to learn from; see ``Baseline.min_spread``."""
        return self.baseline.keeps(group)

    def loss_terms(self, output: PolicyOutput, scores: Scores, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of each token before aggregation, (B, T), and what to log of each token, (B, T) each.

        Raises:
            ValueError: when the batch has no advantages, or a KL or entropy term lacks its log-probabilities.
        """
        if batch.advantages is None:
            raise ValueError(
                "Batch.advantages is None: the batch was not credited (None is not zero); run Algorithm.credit and "
                "token_advantages before the update"
            )
        loss_knobs, mask = self.policy_loss, batch.action_mask
        logp, old_logp = masked_fill(output.logp, mask), masked_fill(scores.old_logp, mask)
        surrogate = clipped_surrogate(
            logp,
            old_logp,
            masked_fill(batch.advantages, mask),
            clip_low=loss_knobs.clip_low,
            clip_high=loss_knobs.clip_high,
            dual_clip=loss_knobs.dual_clip,
        )
        loss_t = surrogate.loss
        metrics_t = {
            "clip_fraction": surrogate.clipped,
            "dual_clip_fraction": surrogate.dual_clipped,
            "ratio_mean": surrogate.ratio,
            "approx_kl": kl_estimate(old_logp, logp, "k3"),
        }
        if self.needs_reference:
            if scores.reference_logp is None:
                raise ValueError("Scores.reference_logp is None but policy_loss.kl_coef > 0: score the reference")
            kl_t = kl_estimate(logp, masked_fill(scores.reference_logp, mask), loss_knobs.kl_estimator)
            loss_t = loss_t + loss_knobs.kl_coef * kl_t
            metrics_t["kl_reference"] = kl_t
        if output.entropy is not None:
            entropy_t = masked_fill(output.entropy, mask)
            if self.needs_entropy:
                loss_t = loss_t - loss_knobs.entropy_coef * entropy_t
            metrics_t["entropy"] = entropy_t
        elif self.needs_entropy:
            raise ValueError("PolicyOutput.entropy is None but policy_loss.entropy_coef > 0: run with_entropy=True")
        return loss_t, metrics_t

    def objective(self, output: PolicyOutput, scores: Scores, batch: Batch) -> LossOutput:
        """Return the loss of one micro-batch, divided by the update's global count.

        Metrics are Σ over trained tokens / the update's tokens, so their *sum* over the micro-batches and ranks of an
        update is the update's mean.
        """
        loss_knobs, mask, update = self.policy_loss, batch.action_mask, batch.update
        loss_t, metrics_t = self.loss_terms(output, scores, batch)
        loss = aggregate(
            loss_t,
            mask,
            tokens=update.tokens,
            sequences=update.sequences,
            averaging=update.averaging,
            mode=loss_knobs.aggregation,
            norm_length=loss_knobs.norm_length,
        )
        return LossOutput(loss, {name: token_share(x, mask, update.tokens) for name, x in metrics_t.items()})
