"""Saved rollouts come back as they were, and other files are refused with their line."""

from __future__ import annotations

import pytest

from sharpo.errors import DataError
from sharpo.rollout import store


def test_saved_groups_come_back_equal(tmp_path, play):
    groups = play(3, 2).groups
    store.save(tmp_path / "deep" / "rollouts.jsonl", groups)
    assert store.load(tmp_path / "deep" / "rollouts.jsonl") == groups
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["rollouts.jsonl"]


def test_an_absent_file_and_a_foreign_line_are_refused(tmp_path):
    with pytest.raises(DataError, match="no saved rollouts"):
        store.load(tmp_path / "absent.jsonl")
    (tmp_path / "other.jsonl").write_text('{"group": 0, "episode": {"task": 1}}\n')
    with pytest.raises(DataError, match=r"other.jsonl, line 1"):
        store.load(tmp_path / "other.jsonl")
    (tmp_path / "binary.jsonl").write_bytes(b"\x80\x00\xff")
    with pytest.raises(DataError, match=r"binary.jsonl cannot be read as text .*data.save_rollouts"):
        store.load(tmp_path / "binary.jsonl")


def test_a_folder_that_cannot_hold_episodes_is_refused_before_the_first_is_played(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"data.save_rollouts=.*file/deep cannot be written \(.*\): choose another"):
        store.check_folder(str(tmp_path / "file" / "deep"))
    with pytest.raises(DataError, match=r"data.save_rollouts='': must be a folder, or null"):
        store.check_folder("")
    store.check_folder(str(tmp_path / "new" / "deep"))
    assert list((tmp_path / "new" / "deep").iterdir()) == []
