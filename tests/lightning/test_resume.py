"""An interrupted run, resumed, is the uninterrupted run, bit for bit."""

import random

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from sharpo.errors import DataError


class Draws(Callback):
    """Consumes every global random state in each update, as an unseeded part would."""

    def __init__(self):
        self.drawn = []

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.drawn.append((random.random(), float(np.random.rand()), float(torch.rand(()))))


class Stop(Callback):
    """Raises in the middle of an epoch."""

    def __init__(self, epoch: int, batch: int):
        self.at = (epoch, batch)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if (trainer.current_epoch, batch_idx) == self.at:
            raise KeyboardInterrupt("pulled the plug")


RUN = (
    "algorithm=sharpo",
    "trainer.max_epochs=3",
    "optimizer.weight_decay=0.1",
    "++schedule._target_=torch.optim.lr_scheduler.LinearLR",
    "++schedule.total_iters=12",
)


def test_interrupted_equals_uninterrupted_bit_for_bit(fit, tmp_path):
    whole_draws, rest_draws = Draws(), Draws()
    whole, module, data = fit(*RUN, callbacks=[whole_draws], folder=tmp_path / "whole")
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        fit(*RUN, callbacks=[Draws(), Stop(2, 1)], folder=tmp_path / "cut")
    last = tmp_path / "cut/run/checkpoints/last.ckpt"
    assert (tmp_path / "cut/run/checkpoints/exception.ckpt").is_file()
    rest, again, resumed = fit(*RUN, callbacks=[rest_draws], ckpt=str(last), folder=tmp_path / "rest")

    assert rest_draws.drawn == whole_draws.drawn[8:]
    assert (again.policy_version, resumed.iteration, resumed.collections) == (3, 3, 1)
    assert data.iteration == 3
    assert whole.global_step == rest.global_step
    for a, b in zip(module.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(a, b)
    for name in ("val/success/all", "train/loss", "rollout/success"):
        assert torch.equal(whole.callback_metrics[name], rest.callback_metrics[name]), name
    mine, other = whole.optimizers[0].state_dict()["state"], rest.optimizers[0].state_dict()["state"]
    assert all(torch.equal(mine[i][key], other[i][key]) for i in mine for key in mine[i])
    assert whole.optimizers[0].param_groups[0]["lr"] == rest.optimizers[0].param_groups[0]["lr"]


def test_a_finished_checkpoint_is_read_without_unpickling_objects(fit, tmp_path):
    fit("validate_first=false", "trainer.max_epochs=1")
    checkpoint = torch.load(tmp_path / "run/checkpoints/last.ckpt", weights_only=True)
    assert checkpoint["sharpo"]["policy_version"] == 1
    assert checkpoint["hyper_parameters"]["name"] == "test"
    assert type(checkpoint["hyper_parameters"]) is dict
    assert checkpoint["RolloutDataModule"] == {"iteration": 1}


def test_the_last_iteration_is_saved_whatever_lies_between_two_saves(fit, tmp_path):
    more = ("validate_first=false", "panel=none", "callbacks.last.every=2")
    _, module, _ = fit(*more, "trainer.max_epochs=3")
    last = tmp_path / "run/checkpoints/last.ckpt"
    assert [path.name for path in last.parent.iterdir()] == ["last.ckpt"]
    saved = torch.load(last, weights_only=True)
    assert saved["sharpo"]["policy_version"] == 3
    assert all(torch.equal(saved["state_dict"][name], x) for name, x in module.state_dict().items())
    _, rest, _ = fit(*more, "trainer.max_epochs=4", ckpt=str(last), folder=tmp_path / "rest")
    assert rest.policy_version == 4


def test_ckpt_last_finds_the_newest_run(tmp_path):
    from sharpo.checkpoints import find as find_checkpoint

    with pytest.raises(DataError, match="ckpt=last: no run in"):
        find_checkpoint("last", tmp_path)
    for name in ("a", "b"):
        folder = tmp_path / name / "checkpoints"
        folder.mkdir(parents=True)
        (folder / "last.ckpt").touch()
    import os

    os.utime(tmp_path / "a/checkpoints/last.ckpt", (10, 10))
    assert find_checkpoint("last", tmp_path) == str(tmp_path / "b/checkpoints/last.ckpt")
    with pytest.raises(DataError, match="there is no such file"):
        find_checkpoint("nowhere.ckpt", tmp_path)
    assert find_checkpoint(None, tmp_path) is None


def test_going_on_names_the_checkpoint_and_what_has_changed(tmp_path, capsys, monkeypatch):
    from omegaconf import OmegaConf

    from sharpo.checkpoints import to_train_on
    from sharpo.logged import without_secrets

    monkeypatch.setenv("HUB_TOKEN", "planted-token")
    run = tmp_path / "runs/old"
    (run / "checkpoints").mkdir(parents=True)
    last = run / "checkpoints/last.ckpt"
    torch.save({"sharpo": {"policy_version": 2}, "optimizer_states": []}, last)
    new = tmp_path / "runs/new"

    def settings_of(folder, lam, iterations, ckpt):
        """A run's own: its folder is part of a logger's settings, and a secret of a part's."""
        return {
            "algorithm": {"lam": lam}, "trainer": {"max_epochs": iterations}, "ckpt": ckpt, "seed": 0,
            "paths": {"run": str(folder)}, "logger": {"csv": {"save_dir": str(folder)}},
            "env": {"families": ["pick", "look"], "url": "http://me:planted-token@host"},
        }  # fmt: skip

    (run / "config.yaml").write_text(OmegaConf.to_yaml(without_secrets(settings_of(run, 0.2, 2, None))))
    settings = settings_of(new, 0.05, 3, "last")
    assert to_train_on("last", new, settings) == str(last)
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"goes on from {last}: 2 of 3 iterations are done",
        "with other settings than its run had: algorithm.lam: 0.2 → 0.05",
    ]
    assert to_train_on("last", new, settings_of(new, 0.2, 3, "last")) == str(last)
    assert capsys.readouterr().out == f"goes on from {last}: 2 of 3 iterations are done\n"
    done = {**settings, "trainer": {"max_epochs": 2}}
    with pytest.raises(DataError, match=r"has 2 iterations already and trainer\.max_epochs=2: raise it"):
        to_train_on("last", new, done)
    assert to_train_on("auto", run, done) == str(last)  # a member that is handed out again is left as it is
    assert to_train_on("auto", new, settings) is None
