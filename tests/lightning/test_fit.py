"""The epoch: collected once, scored, credited, updated, published, validated at the fresh version."""

from dataclasses import replace

import pytest
import small_run
import torch
from lightning.pytorch.callbacks import Callback

from sharpo.engine.hf import HfEngine
from sharpo.errors import DataError, GateError, SharpoError


class Watch(Callback):
    """Notes versions and loaders as the run goes."""

    def __init__(self):
        self.validated, self.trained, self.engine_at_validation, self.norms = [], [], [], []

    def on_validation_batch_end(self, trainer, module, outputs, batch, batch_idx, dataloader_idx=0):
        self.validated.append((module.policy_version, batch.policy_version))
        assert {episode.policy_version for episode in batch.episodes} == {batch.policy_version}
        self.engine_at_validation.append(trainer.datamodule.engine.version)

    def on_train_epoch_start(self, trainer, module):
        self.trained.append((module.policy_version, trainer.train_dataloader.dataset.policy_version))


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """One run of two iterations: (what was noted, trainer, module, data)."""
    watch = Watch()
    return watch, *small_run.train(tmp_path_factory.mktemp("fit"), "algorithm=sharpo", callbacks=[watch])


def test_two_epochs_collect_twice_and_validate_fresh_weights(watched):
    watch, trainer, module, data = watched
    assert data.collections == 2
    assert watch.trained == [(0, 0), (1, 1)]
    # the baseline at version 0 before the first update, then each epoch's own weights; two panels
    assert watch.validated == [(0, 0)] * 2 + [(1, 1)] * 2 + [(2, 2)] * 2
    assert watch.engine_at_validation == [0, 0, 1, 1, 2, 2]
    assert module.policy_version == 2
    assert trainer.global_step == 2 * 4 * 1  # 16 one-row episodes in updates of 4


def test_the_last_iteration_is_validated_whatever_its_number(fit):
    class Versions(Callback):
        def __init__(self):
            self.seen = []

        def on_validation_start(self, trainer, module):
            self.seen.append(module.policy_version)

    versions = Versions()
    fit("trainer.max_epochs=3", "trainer.check_val_every_n_epoch=2", callbacks=[versions])
    assert versions.seen == [0, 2, 3]


def test_training_changes_the_weights_and_logs_finite_numbers(watched):
    _, trainer, module, _ = watched
    fresh = module.make_policy()
    moved = [not torch.equal(a, b) for a, b in zip(fresh.parameters(), module.policy.parameters(), strict=True)]
    assert any(moved)
    logged = trainer.callback_metrics
    for name in ("train/loss", "train/gradient_norm", "rollout/success", "val/success/all", "gate/max_abs"):
        assert torch.isfinite(logged[name]), name
    for name in ("weight_mean", "weight_p95", "z_mean", "multiplier_max"):
        assert torch.isfinite(logged[f"credit/{name}"]), name
    assert 0 < logged["credit/weight_mean"] < 2
    assert logged["gate/max_abs"] < 1e-3
    assert logged["train/skipped_updates"] == 0


@pytest.mark.parametrize("algorithm", ["grpo", "sharpo"])
def test_a_method_learns_the_word_game(fit, algorithm):
    trainer, _, _ = fit(f"algorithm={algorithm}", "trainer.max_epochs=12", "trainer.check_val_every_n_epoch=12")
    assert trainer.callback_metrics["rollout/success"] > 0.6  # at chance about 0.4


def test_imitation_needs_no_scores_and_no_gate(fit):
    trainer, module, _ = fit(
        "algorithm=imitation", "engine=expert", "panel=none", "validate_first=false", "trainer.max_epochs=8"
    )
    assert module.policy_version == 8
    assert trainer.callback_metrics["train/nll"] < 2.0
    assert "gate/max_abs" not in trainer.callback_metrics


def test_kl_needs_a_frozen_reference_that_is_not_in_the_checkpoint(fit):
    trainer, module, _ = fit("algorithm=grpo", "policy_loss=paper", "validate_first=false")
    names = module.state_dict()
    assert len(module._frozen) == 1
    assert not any("frozen" in name for name in names)
    fresh = module.make_policy()
    for a, b in zip(fresh.parameters(), module._frozen[0].parameters(), strict=True):
        assert torch.equal(a, b)
    assert torch.isfinite(trainer.callback_metrics["train/loss"])


def test_rollouts_of_another_version_are_refused(fit):
    class Meddle(Callback):
        def on_train_epoch_start(self, trainer, module):
            module.policy_version += 1

    with pytest.raises(SharpoError, match="sampled by policy version 0 but the policy is at version 1"):
        fit("validate_first=false", callbacks=[Meddle()])


def test_an_engine_that_misreports_stops_the_run_before_any_update(fit, monkeypatch, tmp_path):
    class Keep(Callback):
        def on_exception(self, trainer, module, exception):
            self.module = module

    poll, keep = HfEngine.poll, Keep()

    def shifted(engine):
        return [replace(done, logp=tuple(x + 0.5 for x in done.logp)) for done in poll(engine)]

    monkeypatch.setattr(HfEngine, "poll", shifted)
    with pytest.raises(GateError, match=r"max_abs is 0\.5 nats"):
        fit("validate_first=false", callbacks=[keep])
    assert keep.module.policy_version == 0
    fresh = keep.module.make_policy()
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), keep.module.policy.parameters(), strict=True))
    assert not (tmp_path / "run/checkpoints/last.ckpt").exists()


def test_the_loss_refuses_a_batch_without_credit(fit):
    class Forget(Callback):
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            object.__setattr__(batch[0], "advantages", None)

    with pytest.raises(ValueError, match="not credited"):
        fit("validate_first=false", callbacks=[Forget()])


class PoisonGradients(Callback):
    """Makes the gradient of chosen updates infinite."""

    def __init__(self, steps):
        self.steps, self.seen, self.before, self.unchanged = steps, 0, None, []

    def on_after_backward(self, trainer, module):
        self.before = [p.detach().clone() for p in module.policy.parameters()]
        if self.seen in self.steps:
            next(module.policy.parameters()).grad.fill_(float("inf"))
        self.seen += 1

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        same = all(torch.equal(a, b) for a, b in zip(self.before, module.policy.parameters(), strict=True))
        self.unchanged.append(same)


def test_an_update_with_a_gradient_that_is_not_finite_is_skipped_and_counted(fit):
    poison = PoisonGradients({1})
    trainer, _, _ = fit("validate_first=false", "trainer.max_epochs=1", callbacks=[poison])
    assert poison.unchanged[1]
    assert not any(poison.unchanged[2:])
    assert trainer.callback_metrics["train/skipped_updates"] == 1


def test_three_such_updates_in_a_row_stop_the_run(fit):
    with pytest.raises(SharpoError, match="not finite in 3 updates in a row"):
        fit("validate_first=false", callbacks=[PoisonGradients({0, 1, 2})])


def test_accumulated_micro_batches_give_the_step_of_one_large_batch(fit, tmp_path):
    common = (
        "validate_first=false", "panel=none", "trainer.max_epochs=1", "algorithm=sharpo", "~optimizer.betas",
        "optimizer._target_=torch.optim.SGD", "optimizer.lr=1.0", "trainer.gradient_clip_val=null",
    )  # fmt: skip
    _, one, _ = fit(*common, "data.sizes.micro_rows=16", folder=tmp_path / "whole")
    start = one.make_policy().parameters()
    moved = max(float((a - b).detach().abs().max()) for a, b in zip(one.policy.parameters(), start, strict=True))
    assert moved > 1e-3
    for rows, window in ((4, 5), (1, 20)):  # micro-batches of four rows and of three; four of twenty without any
        sizes = (f"data.sizes.micro_rows={rows}", f"trainer.accumulate_grad_batches={window}")
        trainer, parts, _ = fit(*common, *sizes, folder=tmp_path / f"parts_{window}")
        assert trainer.global_step == 1
        for a, b in zip(one.policy.parameters(), parts.policy.parameters(), strict=True):
            assert torch.allclose(a, b, atol=1e-4 * moved, rtol=0)


def test_a_checkpoint_of_another_model_is_refused(fit, tmp_path):
    fit("validate_first=false", "trainer.max_epochs=1")
    last = str(tmp_path / "run/checkpoints/last.ckpt")
    with pytest.raises(DataError, match="the checkpoint is of another model: weight"):
        fit("model.path.width=64", "validate_first=false", ckpt=last, folder=tmp_path / "other")
