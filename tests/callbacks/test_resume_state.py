"""Random states belong to as many processes as wrote them."""

import pytest
import torch
from sharpo.callbacks.resume_state import ResumeState

from sharpo.errors import DataError


def test_another_number_of_processes_is_one_clear_message():
    saved = ResumeState().state_dict()
    with pytest.raises(DataError, match=r"written by 2 process.* resume with trainer.devices=2"):
        ResumeState().load_state_dict({**saved, "ranks": saved["ranks"] * 2})


def test_a_resumed_run_goes_on_in_its_own_wandb_run(parts, tmp_path):
    pytest.importorskip("wandb", reason="W&B is an optional part")
    torch.save({"callbacks": {"ResumeState": {"wandb_id": "abc123"}}}, tmp_path / "with.ckpt")
    torch.save({"callbacks": {"ResumeState": {"wandb_id": None}}}, tmp_path / "without.ckpt")
    built = parts("logger=wandb")
    settings = [built.trainer(path and str(tmp_path / path)).loggers for path in (None, "without.ckpt", "with.ckpt")]
    found = [[x._wandb_init.get(key) for key in ("id", "resume")] for _, x in settings]
    assert found == [[None, "allow"], [None, "allow"], ["abc123", "allow"]]
