"""Random states belong to as many processes as wrote them."""

import pytest
from sharpo.callbacks.resume_state import ResumeState

from sharpo.errors import DataError


def test_another_number_of_processes_is_one_clear_message():
    saved = ResumeState().state_dict()
    with pytest.raises(DataError, match=r"written by 2 process.* resume with trainer.devices=2"):
        ResumeState().load_state_dict({**saved, "ranks": saved["ranks"] * 2})
