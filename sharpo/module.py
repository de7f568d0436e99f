"""SharpoModule: the policy as student and as teacher, scored once per epoch, updated by automatic optimisation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from sharpo import scoring, update
from sharpo.algorithms.base import Algorithm
from sharpo.batch import Batch, Scores
from sharpo.errors import ConfigError, DataError, SharpoError
from sharpo.policy.causal_lm import CausalPolicy
from sharpo.policy.parallel import shard
from sharpo.policy.teacher import TeacherWeights, refuse_other_teacher


class SharpoModule(lightning.LightningModule):
    """One Lightning epoch is one iteration: score with weights v, update to v+1.

    Args:
        policy: builds the policy; called once, inside :meth:`configure_model`.
        algorithm: the credit-assignment method.
        optimizer: takes named parameters.
        schedule: takes the optimizer; stepped once per update; None = constant learning rate.
        temperature: of sampling, of every scoring pass and of the update.
        teacher: whose weights it has: ``shared``, ``frozen``, ``stale(N)``, ``ema(D)`` (:mod:`sharpo.policy.teacher`).
        gate: compares engine and trainer log-probabilities at every scoring; None = no comparison.
        max_skipped: this many updates in a row with a gradient that is not finite stop the run.
    """

    def __init__(
        self,
        policy: Callable[[], CausalPolicy],
        algorithm: Algorithm,
        optimizer: Callable[..., Optimizer],
        schedule: Callable[[Optimizer], LRScheduler] | None = None,
        *,
        temperature: float = 1.0,
        teacher: str = "shared",
        gate: scoring.Gate | None = None,
        max_skipped: int = 3,
    ) -> None:
        super().__init__()
        if temperature <= 0:
            raise ConfigError(f"temperature must be > 0 for training, got {temperature}")
        self.make_policy = policy
        self.make_optimizer = optimizer
        self.make_schedule = schedule
        self.algorithm = algorithm
        self.temperature = temperature
        self.teacher_weights = TeacherWeights.parse(teacher)
        self.teacher: CausalPolicy | None = None  # a copy that follows the policy, in the checkpoint
        self.gate = gate
        self.max_skipped = max_skipped
        self.policy_version = 0
        self.policy: CausalPolicy = None  # type: ignore[assignment]  # built in configure_model
        self._frozen: tuple[CausalPolicy, ...] = ()  # a tuple: kept out of the parameters and the checkpoint
        self._skipped_in_a_row = 0

    # -- building ----------------------------------------------------------------------------------------------------
    def configure_model(self) -> None:
        """Build the policy once, and shard it when the strategy brings a device mesh."""
        if self.policy is not None:
            return
        policy = self.make_policy()
        self.parameter_shapes = {name: list(parameter.shape) for name, parameter in policy.named_parameters()}
        self.policy = shard(policy.train(), self.device_mesh)
        teacher = self.teacher_weights if self.algorithm.needs_teacher else TeacherWeights("shared")
        training = self.trainer.state.fn == "fit"  # to judge a policy neither copy is needed, nor read
        self.strict_loading = training
        if training and (self.algorithm.needs_reference or teacher.kind == "frozen"):
            self._frozen = (self._copy(),)
        if training and teacher.follows:
            self.teacher = self._copy().train()  # in the mode of the policy
        resumed_from = getattr(self.trainer, "ckpt_path", None)
        if self.device_mesh is not None and resumed_from and Path(resumed_from).is_file():
            # a sharded strategy loads straight into the weights, before on_load_checkpoint can compare
            saved = torch.load(resumed_from, map_location="cpu", mmap=True, weights_only=True)
            refuse_other_model(saved["sharpo"]["parameter_shapes"], self.parameter_shapes)
            refuse_other_teacher(saved["sharpo"]["keeps_teacher"] and training, self.teacher)

    def _copy(self) -> CausalPolicy:
        """Return the initial policy without gradients; made when the policy is sharded: one whole model at a time."""
        return shard(self.make_policy().requires_grad_(False).eval(), self.device_mesh)

    def configure_optimizers(self) -> Any:
        """Finish the optimizer and schedule partials; the schedule counts updates."""
        trained = [(name, p) for name, p in self.policy.named_parameters() if p.requires_grad]
        optimizer = self.make_optimizer(trained)
        if self.make_schedule is None:
            return optimizer
        schedule = {"scheduler": self.make_schedule(optimizer), "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": schedule}

    @property
    def hindsight(self) -> CausalPolicy | None:
        """The copy that scores hinted rows; None = the policy itself does."""
        return self._frozen[0] if self._frozen and self.teacher_weights.kind == "frozen" else self.teacher

    # -- the epoch ---------------------------------------------------------------------------------------------------
    def on_train_epoch_start(self) -> None:
        """Score the fresh buffer with the weights that sampled it and let the algorithm assign credit."""
        buffer = self.trainer.train_dataloader.dataset  # type: ignore[union-attr]
        if buffer.policy_version != self.policy_version:
            raise SharpoError(
                f"the rollouts were sampled by policy version {buffer.policy_version} but the policy is at version "
                f"{self.policy_version}: collect again before the update"
            )
        reference = self._frozen[0].to(self.device) if self._frozen else None
        if self.teacher is not None:
            self.teacher_weights.follow(self.teacher, self.policy, self.policy_version)
        with self.trainer.precision_plugin.forward_context():
            metrics = scoring.score(
                buffer,
                self.policy,
                self.algorithm,
                temperature=self.temperature,
                device=self.device,
                teacher=self.hindsight,
                reference=reference,
                gate=self.gate,
                lockstep=self.device_mesh is not None,
            )
        self._log_epoch({**{f"rollout/{name}": value for name, value in buffer.stats.items()}, **metrics})

    def training_step(self, batch: tuple[Batch, Scores], _: int) -> Tensor:
        """Do one objective on a micro-batch."""
        result = update.step(
            self.policy, self.algorithm, *batch, self.temperature, self.hindsight, lockstep=self.device_mesh is not None
        )
        shares = {f"train/{name}": value * batch[0].update.averaging for name, value in result.metrics.items()}
        self._log_epoch({"train/loss": result.loss.detach(), **shares})  # means of micro-batches: the update's values
        return result.loss

    def configure_gradient_clipping(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip by the global norm; when it is not finite, drop the gradient and count the skipped update."""
        if gradient_clip_algorithm not in (None, "norm"):
            raise ConfigError(f"trainer.gradient_clip_algorithm must be 'norm', got {gradient_clip_algorithm!r}")
        limit = torch.inf if gradient_clip_val is None else float(gradient_clip_val)
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), limit)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm  # type: ignore[operator]
        finite = bool(norm.isfinite())
        self._skipped_in_a_row = 0 if finite else self._skipped_in_a_row + 1
        if not finite:
            optimizer.zero_grad(set_to_none=True)
        if self._skipped_in_a_row >= self.max_skipped:
            raise SharpoError(
                f"the gradient was not finite in {self._skipped_in_a_row} updates in a row: lower optimizer.lr, or "
                "train in a wider precision"
            )
        skipped = float(not finite) / self.trainer.world_size  # the norm is global: every rank skips together
        self._log_epoch({"train/skipped_updates": skipped}, reduce_fx="sum")
        if finite:
            self._log_epoch({"train/gradient_norm": norm.detach()})

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Count the version up after the epoch's last update: before its validation and its checkpoints."""
        if self.trainer.is_last_batch:
            self.policy_version += 1

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Do nothing: the batch already holds the episodes, and callbacks count them."""

    def _log_epoch(self, metrics: dict[str, Any], reduce_fx: str = "mean") -> None:
        self.log_dict(
            {name: torch.as_tensor(value, dtype=torch.float32, device=self.device) for name, value in metrics.items()},
            on_step=False,
            on_epoch=True,
            batch_size=1,
            reduce_fx=reduce_fx,
            sync_dist=self.trainer.world_size > 1,
        )

    # -- checkpoints -------------------------------------------------------------------------------------------------
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the version and the shapes of the weights."""
        checkpoint["sharpo"] = {
            "policy_version": self.policy_version,
            "skipped_in_a_row": self._skipped_in_a_row,
            "parameter_shapes": self.parameter_shapes,
            "keeps_teacher": self.teacher is not None,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the version.

        Raises:
            DataError: when the checkpoint holds another model.
        """
        saved = checkpoint.get("sharpo")
        if saved is None:
            raise DataError("the checkpoint was not written by this program: it holds no policy version")
        refuse_other_model(saved["parameter_shapes"], self.parameter_shapes)
        refuse_other_teacher(saved["keeps_teacher"] and self.strict_loading, self.teacher)
        self.policy_version = int(saved["policy_version"])
        self._skipped_in_a_row = int(saved["skipped_in_a_row"])


def refuse_other_model(saved: dict[str, list[int]], current: dict[str, list[int]]) -> None:
    """Compare the shapes of a checkpoint with those of the policy.

    Raises:
        DataError: naming the first weight that differs.
    """
    for name in sorted(saved.keys() | current.keys()):
        if saved.get(name) != current.get(name):
            raise DataError(
                f"the checkpoint is of another model: weight {name!r} is {saved.get(name, 'absent')} there and "
                f"{current.get(name, 'absent')} in model.path's model; choose the model the checkpoint was trained from"
            )
