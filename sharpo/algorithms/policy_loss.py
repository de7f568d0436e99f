"""The policy loss as a value: clip, KL, entropy and aggregation, shared by every method that is compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from sharpo.errors import ConfigError
from sharpo.functional.aggregate import NORM_LENGTH_MODES, Aggregation
from sharpo.functional.policy_loss import KlEstimator


@dataclass(frozen=True, kw_only=True)
class PolicyLoss:
    """L = agg( surrogate + c_KL · KL − c_H · H ).

    Args:
        clip_low: ε_lo: the ratio is clipped below at 1 − ε_lo.
        clip_high: ε_hi: and above at 1 + ε_hi.
        dual_clip: c > 1 bounds the loss of a negative advantage by c·|A|; None = off.
        kl_coef: c_KL; 0 = no reference policy is loaded.
        kl_estimator: ``k1``, ``k2`` or ``k3``: see :func:`sharpo.functional.policy_loss.kl_estimate`.
        entropy_coef: c_H; raise to keep the policy broad.
        aggregation: how tokens and rows weigh: see :func:`sharpo.functional.aggregate.aggregate`.
        norm_length: tokens, the constant L of ``seq-mean-token-sum-norm`` and ``seq-mean-token-const``; only there.

    Raises:
        ConfigError: when a value is out of range.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = 3.0
    kl_coef: float = 0.0
    kl_estimator: KlEstimator = "k3"
    entropy_coef: float = 0.0
    aggregation: Aggregation = "token-mean"
    norm_length: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.clip_low < 1:
            raise ConfigError(f"policy_loss.clip_low must be in (0, 1), got {self.clip_low}")
        if not self.clip_high > 0:
            raise ConfigError(f"policy_loss.clip_high must be > 0, got {self.clip_high}")
        if self.dual_clip is not None and not self.dual_clip > 1:
            raise ConfigError(f"policy_loss.dual_clip must be > 1, or null to switch it off; got {self.dual_clip}")
        if self.kl_coef < 0 or self.entropy_coef < 0:
            raise ConfigError(
                f"policy_loss.kl_coef and entropy_coef must be >= 0, got {self.kl_coef} and {self.entropy_coef}"
            )
        if self.kl_estimator not in get_args(KlEstimator):
            raise ConfigError(f"policy_loss.kl_estimator must be k1, k2 or k3; got {self.kl_estimator!r}")
        if self.aggregation not in get_args(Aggregation):
            known = ", ".join(get_args(Aggregation))
            raise ConfigError(f"policy_loss.aggregation must be one of {known}; got {self.aggregation!r}")
        if (self.aggregation in NORM_LENGTH_MODES) != (self.norm_length is not None):
            raise ConfigError(
                f"policy_loss.norm_length (tokens) goes with aggregation={' or '.join(NORM_LENGTH_MODES)}, both or "
                f"neither; got aggregation={self.aggregation} and norm_length={self.norm_length}"
            )
        if self.norm_length is not None and self.norm_length < 1:
            raise ConfigError(f"policy_loss.norm_length must be >= 1 token, got {self.norm_length}")
