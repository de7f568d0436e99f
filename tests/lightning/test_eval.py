"""eval.py judges the policy that an experiment's newest run trained, whatever else the checkpoint holds."""

import json

import pytest
import torch

from sharpo import cli
from sharpo.errors import ConfigError, DataError

TRAIN = ("validate_first=false", "panel=none", "optimizer.lr=1e-2", "trainer.max_epochs=1")


@pytest.fixture
def chosen(small, tmp_path):
    return [*(x for x in small if not x.startswith(("callbacks=", "panel."))), f"paths.root={tmp_path}"]


def judge(chosen, *more):
    quiet = ("callbacks.progress.refresh_rate=0", "++trainer.enable_progress_bar=true")
    return cli.evaluate(cli.read("eval", [*chosen, "panel=fast", *quiet, *more]))


def test_ckpt_last_is_the_newest_run_and_its_copy_for_the_teacher_is_not_needed(chosen, tmp_path):
    cli.train(cli.read("train", [*chosen, *TRAIN, "callbacks=quiet", "teacher=ema(0.5)"]))
    trained = next(tmp_path.glob("test/*/checkpoints/last.ckpt"))
    assert any(name.startswith("teacher.") for name in torch.load(trained, weights_only=True)["state_dict"])
    assert judge(chosen, "ckpt=last")["ckpt"] == str(trained)
    written = json.loads(next(tmp_path.glob("eval/test/*/eval.json")).read_text())
    assert written["ckpt"] == str(trained)
    assert judge(chosen, f"ckpt={trained}")["panels"] == written["panels"]


def test_what_cannot_be_judged_is_said(chosen, tmp_path):
    with pytest.raises(ConfigError, match="debug=plan describes a training"):
        judge(chosen, "debug=plan")
    with pytest.raises(DataError, match=f"ckpt=last: no run in {tmp_path}/test has .*the experiment, name and paths"):
        judge(chosen, "ckpt=last")
    with pytest.raises(DataError, match="ckpt=auto goes on with a training: to judge a policy give ckpt=last"):
        judge(chosen, "ckpt=auto")
