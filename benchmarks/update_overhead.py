"""What the framework adds to the update: `trainer.fit` beside a bare forward/backward loop over the same rows.

Run: ``python benchmarks/update_overhead.py [train.py overrides]``.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import lightning
import torch
from noisy_play import noisy_groups
from torch.utils.data import DataLoader

from sharpo import cli, scoring
from sharpo.rollout.buffer import Origin, RolloutBuffer
from sharpo.rollout.collate import collate

REPEATS = 3


class Ready(lightning.LightningDataModule):
    """Hands out one finished buffer."""

    def __init__(self, buffer: RolloutBuffer) -> None:
        super().__init__()
        self.buffer = buffer

    def train_dataloader(self) -> DataLoader[Any]:
        """Return the buffer."""
        return DataLoader(self.buffer, batch_size=None, shuffle=False, num_workers=0, collate_fn=lambda item: item)


class Clock(lightning.Callback):
    """Times scoring and updates together, as the bare loop does."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Start."""
        pl_module.policy_version = 0
        self.begun = time.perf_counter()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Stop after the last update."""
        if trainer.is_last_batch:
            self.seconds.append(time.perf_counter() - self.begun)


def run(cfg: Any) -> None:
    """Time both and print the ratio."""
    parts = cli.Parts(cfg)
    data = parts.data()
    table = collate(noisy_groups(data), parts.algorithm, data.hint, data.renderer.tokenize, None)
    origin = Origin(0, 0, 0, data.renderer.pad_id, 1)

    limits = {"gradient_clip_val": cfg.trainer.gradient_clip_val,
              "accumulate_grad_batches": cfg.trainer.get("accumulate_grad_batches", 1)}  # fmt: skip

    def fresh() -> RolloutBuffer:
        return RolloutBuffer(table, data.sizes, limits["accumulate_grad_batches"], origin, {}, with_teacher=True)

    bare: list[float] = []
    policy = parts.policy()
    optimizer = parts.module().make_optimizer(list(policy.named_parameters()))
    for _ in range(REPEATS):
        buffer = fresh()
        begun = time.perf_counter()
        scoring.score(buffer, policy, parts.algorithm, temperature=cfg.temperature, device="cpu")
        for index in range(len(buffer)):
            batch, scores = buffer[index]
            output = policy(batch.token_ids, batch.attention, batch.action_mask, cfg.temperature)
            parts.algorithm.objective(output, scores, batch).loss.backward()
            if (index + 1) % buffer.micro_batches == 0:
                torch.nn.utils.clip_grad_norm_(policy.parameters(), limits["gradient_clip_val"])
                optimizer.step()
                optimizer.zero_grad()
        bare.append(time.perf_counter() - begun)

    cli.hush()
    warnings.filterwarnings("ignore", "You defined a `validation_step`")  # the panels are not part of this
    clock = Clock()
    module = parts.module()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=REPEATS, callbacks=[clock], logger=False, **limits,
        limit_val_batches=0, reload_dataloaders_every_n_epochs=1, num_sanity_val_steps=0, use_distributed_sampler=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, datamodule=Ready(fresh()))
    best, framework = min(bare), min(clock.seconds)
    print(f"| score and update of {len(table.rows)} rows, {len(fresh())} micro-batches | seconds (best of {REPEATS}) |")
    print("|---|---|")
    print(f"| bare loop | {best:.2f} |\n| trainer.fit | {framework:.2f} |\n| ratio | {framework / best:.2f} |")


if __name__ == "__main__":
    cli.main(run)
