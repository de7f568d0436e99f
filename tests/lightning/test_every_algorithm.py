"""`python train.py experiment=household_demo algorithm=<each>`: two iterations on household games, for every yaml."""

from __future__ import annotations

from pathlib import Path

import lightning
import pytest
import torch

from sharpo import cli
from sharpo.engine.expert import ExpertEngine

FOLDER = Path(__file__).resolve().parents[2] / "configs" / "algorithm"
ALGORITHMS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
TINY = (
    "experiment=household_demo",
    "model=tiny",
    "engine=hf",
    "panel=none",
    "validate_first=false",
    "callbacks=quiet",
    "data.pool._target_=sharpo.rollout.env_pool.InlineEnvPool",
    "data.sizes.groups=3",
    "data.sizes.group_size=3",
    "data.sizes.micro_rows=4",
    "data.sizes.passes=1",
    "model.path.width=32",
    "model.path.heads=1",
    "model.path.layers=1",
    "model.path.feed_forward=32",
    "trainer.accelerator=cpu",
    "trainer.max_epochs=2",
    "+trainer.enable_progress_bar=false",
)


@pytest.fixture
def short_run(tmp_path):
    def run(*more, noise=0.5):
        parts = cli.Parts(cli.read("train", [*TINY, f"paths.root={tmp_path}", f"paths.run={tmp_path}/run", *more]))
        lightning.seed_everything(parts.cfg.seed, workers=True, verbose=False)
        module, data, trainer = parts.module(), parts.data(), parts.trainer()
        # an oracle that errs plays, so that a group holds successes and failures: a policy from scratch never wins
        data.make_engine = lambda: ExpertEngine(noise=noise, max_context=512)
        trainer.fit(module, datamodule=data)
        return trainer, module, data

    return run


@pytest.mark.parametrize("name", ALGORITHMS)
def test_two_iterations_change_the_weights_and_log_finite_losses(name, short_run):
    trainer, module, data = short_run(f"algorithm={name}", *(["engine=expert"] if name.startswith("imitation") else []))
    assert (data.collections, module.policy_version) == (2, 2)
    logged = trainer.callback_metrics
    assert torch.isfinite(logged["train/loss"])
    assert torch.isfinite(logged["train/gradient_norm"])
    assert logged["train/skipped_updates"] == 0
    assert 0 < logged["rollout/success"] < 1  # otherwise there is no credit to assign
    fresh = module.make_policy()
    assert any(not torch.equal(a, b) for a, b in zip(fresh.parameters(), module.policy.parameters(), strict=True))
    if module.algorithm.needs_teacher:
        ran = "credit/teacher_rows" if module.algorithm.divergence is None else "train/taught_share"
        assert logged[ran] > 0, "no teacher was run: the method's own part was not exercised"
        assert logged["rollout/hint_coverage"] > 0


def test_groups_without_a_difference_are_left_out_and_counted(short_run):
    trainer, module, data = short_run("algorithm=grpo_filtered", noise=0.0)  # all win alike
    assert trainer.callback_metrics["rollout/groups_dropped"] == 3
    assert module.policy_version == 2
    fresh = module.make_policy()
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), module.policy.parameters(), strict=True))
    assert data.collections == 2
