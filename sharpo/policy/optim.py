"""Muon on the hidden matrices and AdamW on everything else, as one optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, cast

import torch
from torch import Tensor, nn

from sharpo.errors import ConfigError
from sharpo.policy.muon import Float32Muon
from sharpo.ranges import Count, Natural, NonNegative, Share, Within, check, checked

_NOT_HIDDEN = ("embed", "lm_head", "wte", "wpe")


def is_hidden_matrix(name: str, parameter: Tensor) -> bool:
    """Tell whether a parameter is a matrix between hidden layers: neither embedding nor head.

    Example:
        >>> is_hidden_matrix("model.layers.0.mlp.up_proj.weight", torch.zeros(2, 2))
        True
        >>> is_hidden_matrix("model.embed_tokens.weight", torch.zeros(2, 2))
        False
    """
    return parameter.ndim == 2 and not any(part in name for part in _NOT_HIDDEN)


class MuonAdamW(torch.optim.Optimizer):
    """Muon for hidden matrices, AdamW for embeddings, head, norms and biases; one step, one state, two groups.

    W ← W − η √max(1, rows/columns) · orthogonalised momentum (Jordan et al., 2024) for the matrices, AdamW elsewhere.

    Args:
        named_params: (name, parameter) pairs, as from ``named_parameters()``.
        lr: learning rate η of the matrices.
        adamw_lr: learning rate of the rest.
        momentum: of Muon, with Nesterov's look-ahead.
        weight_decay: decoupled, of both.
        betas: of AdamW.
        eps: of AdamW.

    Raises:
        ConfigError: when there is no hidden matrix, or parameters came without names.
    """

    @checked("optimizer")
    def __init__(
        self,
        named_params: Iterable[tuple[str, nn.Parameter]],
        lr: NonNegative = 0.025,
        adamw_lr: NonNegative = 5e-3,
        momentum: Annotated[float, Within(0, 1, below=True)] = 0.95,
        weight_decay: NonNegative = 0.0,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: NonNegative = 1e-8,
    ) -> None:
        pairs = list(cast("Iterable[Any]", named_params))
        if any(not isinstance(pair, tuple) for pair in pairs):
            raise ConfigError("MuonAdamW chooses by name: give it named_parameters(), not parameters()")
        trained = [(name, parameter) for name, parameter in pairs if parameter.requires_grad]
        matrices = [parameter for name, parameter in trained if is_hidden_matrix(name, parameter)]
        others = [parameter for name, parameter in trained if not is_hidden_matrix(name, parameter)]
        if not matrices:
            raise ConfigError("MuonAdamW found no hidden matrix to train: choose torch.optim.AdamW")
        self._parts: tuple[torch.optim.Optimizer, ...] = ()
        plain = all(type(p.data) is Tensor and p.device.type == "cpu" for p in matrices)  # not sharded, not on a GPU
        muon = (Float32Muon if plain else torch.optim.Muon)(
            matrices, lr=lr, momentum=momentum, weight_decay=weight_decay
        )
        parts: list[torch.optim.Optimizer] = [muon]
        if others:
            parts.append(torch.optim.AdamW(others, lr=adamw_lr, betas=betas, eps=eps, weight_decay=weight_decay))
        super().__init__([group for part in parts for group in part.param_groups], {})
        self._parts = tuple(parts)
        self._share()

    def _share(self) -> None:
        """Let both parts see this optimizer's groups and state, so that there is one of each."""
        for part, group in zip(self._parts, self.param_groups, strict=True):
            part.param_groups = [group]
            part.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run the closure with gradients, then step both parts; return the closure's loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self._parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load groups and state; both parts see them."""
        super().load_state_dict(state_dict)
        self._share()


def linear_schedule(
    optimizer: torch.optim.Optimizer, total_updates: Count, warmup: Natural = 0, floor: Share = 0.05
) -> torch.optim.lr_scheduler.LambdaLR:
    """Return a schedule of every group's rate: up in a line over ``warmup`` updates, then down in a line to ``floor``.

    Args:
        optimizer: whose rates are the peaks.
        total_updates: updates after which the rate stays at ``floor`` of its peak.
        warmup: updates of the rise.
        floor: last share of the peak.

    Raises:
        ConfigError: when a number is out of range, or ``warmup`` is not below ``total_updates``.

    Example:
        >>> parameter = torch.nn.Parameter(torch.zeros(1))
        >>> schedule = linear_schedule(torch.optim.SGD([parameter], lr=1.0), total_updates=10, warmup=2, floor=0.0)
        >>> [round(schedule.lr_lambdas[0](n), 3) for n in (0, 1, 2, 6, 10, 99)]
        [0.5, 1.0, 1.0, 0.5, 0.0, 0.0]
    """
    given = {"total_updates": total_updates, "warmup": warmup, "floor": floor}
    check("schedule", given, linear_schedule)
    if warmup >= total_updates:
        raise ConfigError(f"schedule.warmup={warmup} must be below total_updates={total_updates}")

    def share(done: int) -> float:
        rise = min(1.0, (done + 1) / warmup) if warmup else 1.0
        fall = 1.0 - max(0, done - warmup) / (total_updates - warmup)
        return min(rise, max(floor, fall))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, share)


def warm_up(optimizer: torch.optim.Optimizer, updates: Count = 180) -> torch.optim.lr_scheduler.LambdaLR:
    """Return a schedule of every group's rate: up in a line over the first updates, then constant.

    Args:
        optimizer: whose rates are the peaks.
        updates: of the rise. The default is a tenth of the benchmark family's search runs: 15 of 150 iterations, each
            of 1,024 episodes with about 3 turns in updates of 256 rows.

    Raises:
        ConfigError: when ``updates`` is below 1.

    Example:
        >>> schedule = warm_up(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0), updates=4)
        >>> [schedule.lr_lambdas[0](n) for n in (0, 1, 3, 4, 99)]
        [0.25, 0.5, 1.0, 1.0, 1.0]
    """
    check("schedule", {"updates": updates}, warm_up)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: min(1.0, (done + 1) / updates))
