"""ALFWorld's data on disk: found, counted, fingerprinted, compiled once; nothing or a mixture is refused."""

import json
import shutil

import pytest
from sharpo.envs.native import cache
from sharpo.envs.native.release import GAME, compile_split, find, games, inspect

from sharpo import data
from sharpo.errors import DataError


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("SHARPO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "games"


def test_a_split_is_counted_by_family_and_fingerprinted(alfworld_games):
    found = inspect(alfworld_games, "valid_seen")
    assert sum(found.families) == len(games(alfworld_games / "valid_seen")) == 5
    assert found.forms == {"put": 5}
    assert not found.official
    assert inspect(alfworld_games, "valid_seen") == found


def test_another_content_has_another_fingerprint_and_a_mixture_is_refused(alfworld_games, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(alfworld_games / "valid_seen", copy / "valid_seen")
    path = copy / "valid_seen" / games(copy / "valid_seen")[0] / GAME
    game = json.loads(path.read_text())
    path.write_text(json.dumps(game | {"walkthrough": []}))
    assert inspect(copy, "valid_seen").fingerprint != inspect(alfworld_games, "valid_seen").fingerprint
    path.write_text(json.dumps(game | {"grammar": game["grammar"].replace("put {o} in/on {r}", "move {o} to {r}")}))
    with pytest.raises(DataError, match="mixes games of several releases"):
        inspect(copy, "valid_seen")


def test_no_game_is_refused(tmp_path, capsys):
    with pytest.raises(DataError, match="no ALFWorld games in"):
        inspect(tmp_path, "train")
    assert data.main(["alfworld", "verify", "--source", str(tmp_path)]) == 2
    assert "error: no ALFWorld games" in capsys.readouterr().err


def test_the_release_folder_is_found_inside_the_download(tmp_path):
    assert find(str(tmp_path)) == tmp_path
    (tmp_path / "json_2.1.1").mkdir()
    assert find(str(tmp_path)) == tmp_path / "json_2.1.1"
    (tmp_path / "train").mkdir()
    assert find(str(tmp_path)) == tmp_path


def test_a_split_is_compiled_once_and_goes_on_where_it_stopped(alfworld_games, kept, capsys):
    assert list(compile_split(alfworld_games, "train", 1))[-1] == (2, 2)
    files = sorted(kept.iterdir())
    assert len(files) == 2
    stamps = [path.stat().st_mtime_ns for path in files]
    files[0].unlink()
    assert data.main(["alfworld", "--source", str(alfworld_games), "--split", "train", "--workers", "1"]) == 0
    said = capsys.readouterr().out
    assert "compile train: 2 of 2\nready: env.data=" in said  # lines instead of a bar: the output is no terminal
    assert sorted(kept.iterdir()) == files
    assert files[1].stat().st_mtime_ns == stamps[1]


def test_a_damaged_compiled_game_says_so(alfworld_games, kept):
    source = (alfworld_games / "train" / games(alfworld_games / "train")[0] / GAME).read_bytes()
    cache.compiled(source, json.loads)
    (path,) = kept.iterdir()
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match=r"cannot be read .* delete it"):
        cache.compiled(source, json.loads)
