"""The log-prob gate: engine and trainer must agree about the tokens that were sampled, or the run stops."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sharpo.errors import GateError
from sharpo.ranges import Positive, check
from sharpo.shapes import expect


@dataclass(frozen=True, slots=True)
class LogprobGate:
    """Compares Δ = |log p_engine − log p_trainer| of every sampled token with two thresholds.

    After a correct publish Δ is about 1e-5 in fp32 on one device; in bf16 across kernels most tokens agree to a tenth
    of a nat and the rarest ones do not. Stale weights, a stale cache or another temperature cost most tokens nats.

    Args:
        max_abs: highest Δ allowed, in nats.
        p99_abs: highest 99th percentile of Δ allowed, in nats.
    """

    max_abs: Positive
    p99_abs: Positive

    def __post_init__(self) -> None:
        check("gate", {"max_abs": self.max_abs, "p99_abs": self.p99_abs}, LogprobGate)

    def check(self, behaviour_logp: Tensor, old_logp: Tensor, mask: Tensor) -> dict[str, float]:
        """Return ``gate/max_abs``, ``gate/p99_abs`` and ``gate/mean_abs`` in nats over the compared tokens.

        Tokens whose ``behaviour_logp`` is NaN (the engine reports none) are not compared; {} when none is left.

        Args:
            behaviour_logp: the engine's, (B, T) float.
            old_logp: the trainer's, (B, T) float.
            mask: sampled tokens, (B, T) bool.

        Raises:
            GateError: above a threshold, or the trainer's number is not finite.

        Example:
            >>> import torch
            >>> gate = LogprobGate(max_abs=0.1, p99_abs=0.1)
            >>> gate.check(torch.tensor([[-1.0, 0.0]]), torch.tensor([[-1.0, 5.0]]), torch.tensor([[True, False]]))
            {'gate/max_abs': 0.0, 'gate/p99_abs': 0.0, 'gate/mean_abs': 0.0}
        """
        sizes = expect(behaviour_logp, "B T", "float", name="behaviour_logp")
        expect(old_logp, "B T", "float", name="old_logp", **sizes)
        expect(mask, "B T", "bool", name="mask", **sizes)
        compared = mask & behaviour_logp.isnan().logical_not()
        gap = (behaviour_logp[compared].double() - old_logp[compared].double()).abs()
        if gap.numel() == 0:
            return {}
        gap = gap.nan_to_num(nan=float("inf"), posinf=float("inf")).sort().values
        p99 = gap[min(gap.numel() - 1, int(0.99 * gap.numel()))]
        found = {"gate/max_abs": gap[-1].item(), "gate/p99_abs": p99.item(), "gate/mean_abs": gap.mean().item()}
        for name, limit in (("max_abs", self.max_abs), ("p99_abs", self.p99_abs)):
            value = found[f"gate/{name}"]
            if value > limit:
                raise GateError(
                    f"engine and trainer disagree about log-probabilities: {name} is {value:.3g} nats over "
                    f"{gap.numel()} tokens, gate.{name} allows {limit:g}: the engine has stale weights or caches, "
                    "another temperature or another precision; training on such samples would be wrong"
                )
        return found
