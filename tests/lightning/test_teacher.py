"""The teacher's weights: the policy's own, the initial ones, or a copy that follows the policy and resumes with it."""

import pytest
import torch
from lightning.pytorch.callbacks import Callback

from sharpo.cli import read
from sharpo.errors import ConfigError, DataError
from sharpo.policy.teacher import TeacherWeights

RUN = ("algorithm=sharpo", "validate_first=false", "panel=none", "optimizer.lr=1e-2")


class Follow(Callback):
    """Notes policy and teacher weights when each iteration has scored."""

    def __init__(self):
        self.policy, self.teacher = [], []

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if batch_idx == 0:
            self.policy.append([p.detach().clone() for p in module.policy.parameters()])
            if module.teacher is not None:
                self.teacher.append([p.detach().clone() for p in module.teacher.parameters()])


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_a_stale_teacher_is_renewed_every_n_iterations(fit):
    seen = Follow()
    fit(*RUN, "teacher=stale(2)", "trainer.max_epochs=4", callbacks=[seen])
    assert [equal(teacher, policy) for teacher, policy in zip(seen.teacher, seen.policy, strict=True)] == [
        True, False, True, False,
    ]  # fmt: skip
    assert equal(seen.teacher[1], seen.policy[0])
    assert equal(seen.teacher[3], seen.policy[2])


def test_an_averaged_teacher_moves_by_its_share(fit):
    seen = Follow()
    fit(*RUN, "teacher=ema(0.75)", "trainer.max_epochs=2", callbacks=[seen])
    assert equal(seen.teacher[0], seen.policy[0])
    for was, now, new in zip(seen.teacher[0], seen.teacher[1], seen.policy[1], strict=True):
        torch.testing.assert_close(now, 0.75 * was + 0.25 * new)
    assert not equal(seen.teacher[1], seen.teacher[0])


def test_a_frozen_teacher_keeps_the_initial_weights_and_is_not_saved(fit, tmp_path):
    seen = Follow()
    trainer, module, _ = fit(*RUN, "teacher=frozen", callbacks=[seen])
    assert module.teacher is None
    assert equal(seen.policy[0], module._frozen[0].parameters())
    assert not equal(seen.policy[1], module._frozen[0].parameters())
    assert torch.isfinite(trainer.callback_metrics["credit/weight_mean"])
    names = torch.load(tmp_path / "run/checkpoints/last.ckpt", weights_only=True)["state_dict"]
    assert not any("teacher" in name or "frozen" in name for name in names)


def test_a_method_without_a_teacher_keeps_no_copy(fit):
    _, module, _ = fit(*RUN, "algorithm=grpo", "teacher=ema(0.9)", "trainer.max_epochs=1")
    assert module.teacher is None


def test_the_copy_resumes_and_another_choice_is_refused(fit, tmp_path):
    whole = Follow()
    fit(*RUN, "teacher=ema(0.5)", "trainer.max_epochs=3", callbacks=[whole], folder=tmp_path / "whole")
    fit(*RUN, "teacher=ema(0.5)", "trainer.max_epochs=2", folder=tmp_path / "half")
    last, rest = str(tmp_path / "half/run/checkpoints/last.ckpt"), Follow()
    more = (*RUN, "trainer.max_epochs=3")
    fit(*more, "teacher=ema(0.5)", callbacks=[rest], ckpt=last, folder=tmp_path / "rest")
    assert equal(rest.teacher[0], whole.teacher[2])
    with pytest.raises(DataError, match="holds a copy of the weights for the teacher and this run keeps none"):
        fit(*more, ckpt=last, folder=tmp_path / "other")


def test_values_with_brackets_need_no_quotes_of_hydras():
    cfg = read("train", ["teacher=stale(10)", "algorithm.lambda_schedule=linear_to_zero(50)"])
    assert (cfg.teacher, cfg.algorithm.lambda_schedule) == ("stale(10)", "linear_to_zero(50)")


@pytest.mark.parametrize("text", ["old", "stale", "stale(0)", "ema(1.0)", "ema(0.0)", "ema"])
def test_what_it_may_be(text):
    with pytest.raises(ConfigError, match="teacher="):
        TeacherWeights.parse(text)
