"""GRPO: every token of a turn gets how much better the turn's return is than its group's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sharpo.algorithms.base import Algorithm
from sharpo.algorithms.policy_loss import PolicyLoss
from sharpo.batch import Batch, LossOutput, PolicyOutput, Scores
from sharpo.episode import EpisodeGroup
from sharpo.errors import ConfigError
from sharpo.functional.advantages import Scope, group_relative
from sharpo.functional.aggregate import aggregate, token_share
from sharpo.functional.masked import masked_fill
from sharpo.functional.policy_loss import clipped_surrogate, kl_estimate


@dataclass(frozen=True, kw_only=True)
class Grpo(Algorithm):
    """A_k = (S_k − μ_g)/(σ_g + ε), S_k = the episode's return − the turn's own penalty (arXiv 2402.03300).

    Args:
        policy_loss: clip, KL, entropy and aggregation.
        stats_scope: μ and σ over the group's turns (``rows``: long episodes weigh more; the field's agent code) or
            over its episodes (``trajectories``: the textbook).
        norm_by_std: divide by σ_g + ε.
        correction: 1 = unbiased variance, 0 = population variance; they differ by 7 % at G = 8.
    """

    policy_loss: PolicyLoss
    stats_scope: Scope = "rows"
    norm_by_std: bool = True
    correction: int = 1

    def __post_init__(self) -> None:
        if self.stats_scope not in ("rows", "trajectories"):
            raise ConfigError(f"algorithm.stats_scope must be rows or trajectories; got {self.stats_scope!r}")
        if self.correction not in (0, 1):
            raise ConfigError(f"algorithm.correction must be 0 (population) or 1 (unbiased); got {self.correction}")

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
        rows = [
            (episode.episode_return - turn.penalty, member)
            for member, episode in enumerate(group.episodes)
            for turn in episode.turns
        ]
        returns = torch.tensor([value for value, _ in rows], dtype=torch.float64)
        episode = torch.tensor([member for _, member in rows])
        return group_relative(
            returns, episode, scope=self.stats_scope, norm_by_std=self.norm_by_std, correction=self.correction
        ).float()

    def objective(self, output: PolicyOutput, scores: Scores, batch: Batch) -> LossOutput:
        """Return the clipped policy loss of one micro-batch, divided by the update's global count.

        Metrics are Σ over trained tokens / the update's tokens, so their *sum* over the micro-batches and ranks of an
        update is the update's mean.

        Raises:
            ValueError: when the batch has no advantages, or a KL or entropy term lacks its log-probabilities.
        """
        if batch.advantages is None:
            raise ValueError(
                "Batch.advantages is None: the batch was not credited (None is not zero); run Algorithm.credit and "
                "token_advantages before the update"
            )
        loss_knobs, mask, update = self.policy_loss, batch.action_mask, batch.update
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
