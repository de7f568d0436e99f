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


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Where the one model of all these runs is made."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def short_run(tmp_path, models):
    def run(*more, noise=0.5):
        places = (f"paths.root={tmp_path}", f"paths.run={tmp_path}/run", f"model.path.folder={models}")
        parts = cli.Parts(cli.read("train", [*TINY, *places, *more]))
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
        compared = module.algorithm.divergence is not None  # token for token in the update, or scored once before it
        ran = "train/taught_share" if compared else "credit/teacher_rows"
        assert logged[ran] > 0, "no teacher was run: the method's own part was not exercised"
        assert logged["rollout/hint_coverage"] > 0
        buffer = trainer.train_dataloader.dataset
        rows = [buffer[i] for i in range(len(buffer))]
        assert any(batch.teacher_token_ids is not None for batch, _ in rows) == compared
        assert any(scores.teacher_logp.isfinite().any() for _, scores in rows) != compared
    if name.startswith(("opsd", "grpo_opsd")):
        assert logged["train/taught_share"] > 0
        assert logged["train/auxiliary_loss"] != 0


def test_groups_without_a_difference_are_left_out_and_counted(short_run):
    trainer, module, data = short_run("algorithm=grpo_filtered", noise=0.0)  # all win alike
    assert trainer.callback_metrics["rollout/groups_dropped"] == 3
    assert module.policy_version == 2
    fresh = module.make_policy()
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), module.policy.parameters(), strict=True))
    assert data.collections == 2
