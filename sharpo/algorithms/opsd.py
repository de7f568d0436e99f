"""OPSD: on-policy self-distillation alone; the rewards are not used."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sharpo.algorithms.grpo_opsd import GrpoOpsd
from sharpo.batch import Batch, PolicyOutput, Scores
from sharpo.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Opsd(GrpoOpsd):
    """L = agg( coef · L_OPSD + c_KL · KL − c_H · H ): the policy loss has coefficient 0 (arXiv 2601.18734).

    Args:
        coef: weight of the distillation, > 0.
    """

    coef: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coef == 0:
            raise ConfigError("algorithm.coef must be > 0: distillation is all that opsd trains on; got 0")

    def loss_terms(self, output: PolicyOutput, scores: Scores, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the distillation, KL and entropy terms of each token: advantages of 0 leave no policy loss."""
        if batch.advantages is not None:
            batch = replace(batch, advantages=torch.zeros_like(batch.advantages))
        return super().loss_terms(output, scores, batch)
