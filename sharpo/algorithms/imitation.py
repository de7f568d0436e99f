"""Imitation: negative log-likelihood of expert play; the warm start of small models."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sharpo.algorithms.base import Algorithm
from sharpo.batch import Batch, LossOutput, PolicyOutput, Scores
from sharpo.episode import EpisodeGroup
from sharpo.errors import ConfigError
from sharpo.functional.aggregate import aggregate, token_share
from sharpo.functional.masked import masked_fill


@dataclass(frozen=True, kw_only=True)
class Imitation(Algorithm):
    """L = −(1/N) [ Σ_{actions} log π(y_t) + c · Σ_{context} log π(x_t) ], N = trained action tokens of the update.

    Context tokens are prompts, observations and hints: real tokens that no turn sampled, after a row's first token, in
    rows that have something to train (so padding rows stay weightless). Sampled tokens that must not be trained on,
    such as the expert's noise, are neither.

    Args:
        context_weight: c >= 0, the weight of a context token beside an action token.
        hinted_share: share of a group's episodes whose student row carries the hint, in [0, 1]; it teaches a
            from-scratch model to read a peer, without which its hindsight means nothing.
    """

    context_weight: float = 0.5
    hinted_share: float = 0.375  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        if not self.context_weight >= 0:
            raise ConfigError(f"algorithm.context_weight must be >= 0, got {self.context_weight}")
        if not 0 <= self.hinted_share <= 1:
            raise ConfigError(f"algorithm.hinted_share must be in [0, 1], got {self.hinted_share}")

    @property
    def needs_scores(self) -> bool:
        """False: imitation compares with nothing."""
        return False

    @property
    def scores_context(self) -> bool:
        """True when context tokens are trained too."""
        return self.context_weight > 0

    def base_advantages(self, group: EpisodeGroup) -> Tensor:
        """Return 1 for each turn of each episode, (S_g,) float."""
        return torch.ones(sum(len(episode.turns) for episode in group.episodes))

    def objective(self, output: PolicyOutput, scores: Scores, batch: Batch) -> LossOutput:
        """Return the negative log-likelihood of one micro-batch, divided by the update's trained tokens.

        Metrics ``nll`` and ``context_nll`` sum over micro-batches and ranks to nats per trained action token.
        """
        del scores
        actions, update = batch.action_mask, batch.update
        first = batch.attention.cumsum(dim=1) == 1
        context = batch.attention & ~first & (batch.segment_index == -1) & actions.any(dim=1, keepdim=True)
        if self.context_weight == 0:
            context = torch.zeros_like(context)
        nll = -masked_fill(output.logp, actions | context)
        weighted = torch.where(actions, nll, self.context_weight * nll)
        loss = aggregate(
            weighted,
            actions | context,
            tokens=update.tokens,
            sequences=update.sequences,
            averaging=update.averaging,
        )
        return LossOutput(
            loss,
            {
                "nll": token_share(nll, actions, update.tokens),
                "context_nll": token_share(nll, context, update.tokens),
            },
        )
