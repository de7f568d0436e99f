"""What a run refuses before it begins: values out of range, removed parts, what the program sets itself, bad files."""

import os
import signal
import time

import pytest
import torch

from sharpo import checkpoints, cli, overrides, run_folder
from sharpo.errors import ConfigError, DataError, SharpoError


def begun(*arguments, root):
    parts = cli.Parts(cli.read("train", ["model=tiny", "engine=hf", f"paths.root={root}", *arguments]))
    trainer = parts.trainer()
    return parts.module(), trainer


def refused(*arguments, root):
    with pytest.raises(SharpoError) as caught:
        begun(*arguments, root=root)
    return str(caught.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("seed=-1", "seed=-1: must be 0 to"),
        ("temperature=nan", "temperature must be a number, got nan"),
        ("name=../x", "name='../x': it names the run's folder"),
        ("paths.root=null", "paths.root=None: must be a folder"),
        ("ckpt=1", "ckpt must be text or null, got 1"),
        ("trainer.max_epochs=0", "trainer.max_epochs=0: must be a whole number of at least 1"),
        ("~trainer.max_epochs", "trainer.max_epochs has no value"),
        ("trainer.accumulate_grad_batches=0", "trainer.accumulate_grad_batches=0: must be"),
        ("trainer.gradient_clip_val=-1", "trainer.gradient_clip_val=-1: must be above 0"),
        ("trainer.gradient_clip_algorithm=value", "only the global norm clips here"),
        ("~engine", "~engine: a run needs engine"),
        ("~seed", "~seed: a run needs seed"),
        ("++sead=1", "the configuration has no 'sead'; did you mean 'seed'"),
        ("=3", "'=3' is not of the form key=value"),
        ("optimizer.lr=-1", "optimizer: Invalid learning rate: -1, lr=-1"),
        ("trainer.strategy=ddp", "trainer.strategy='ddp': the program sets it from strategy=...; leave it out"),
        ("trainer.num_sanity_val_steps=3", "trainer.num_sanity_val_steps=3: the program sets it; leave it out"),
        ("model.path=", "model.path='': give a model's folder"),
        ("teacher=stale(-1)", "teacher='stale(-1)' must be shared"),
    ],
)
def test_what_no_run_can_honour(setting, message, tmp_path):
    assert message in refused(setting, root=tmp_path)


def test_a_fast_check_without_validation():
    assert cli.Parts(cli.read("train", ["debug=fast", "panel=none"])).panels == {}


def test_a_folder_with_spaces_letters_and_equals_signs(tmp_path):
    root = tmp_path / "é =x (1)"
    assert cli.read("train", [f"paths.root={root}"]).paths.root == str(root)


def test_a_checkpoint_that_is_none(tmp_path):
    with pytest.raises(DataError, match="there is a folder; give a file in it"):
        checkpoints.find(str(tmp_path), tmp_path)
    whole = tmp_path / "whole.ckpt"
    torch.save({"sharpo": {}, "weights": torch.zeros(9999)}, whole)
    for name, content in (("short", whole.read_bytes()[:9000]), ("text", b'{"a": 1}'), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=f"ckpt=.*{name} is damaged or no checkpoint"):
            checkpoints.check(str(tmp_path / name), resume=False)
    torch.save({"state_dict": {}}, tmp_path / "foreign")
    with pytest.raises(DataError, match="was not written by this program"):
        checkpoints.check(str(tmp_path / "foreign"), resume=False)
    assert checkpoints.check(str(whole), resume=False) == str(whole)
    with pytest.raises(DataError, match=r"weights alone.*last\.ckpt"):
        checkpoints.check(str(whole), resume=True)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"paths.run=.*file/run cannot be written \(.*\): choose another folder"):
        run_folder.make(tmp_path / "file" / "run")


def test_a_sweep_takes_a_knob_that_no_yaml_holds():
    def forms(*arguments):
        return overrides.for_hydra(list(arguments), lambda *chosen: cli._choices("train", *chosen))

    assert forms("-m", "algorithm.lam=0.05,0.2", "seed=0,1") == ["-m", "++algorithm.lam=0.05,0.2", "seed=0,1"]
    assert forms("-m", "algorithm=sharpo,sharpo_l005", "algorithm.lam=0.1")[-1] == "++algorithm.lam=0.1"
    assert forms("--cfg", "job", "hydra.verbose=true") == ["--cfg", "job", "hydra.verbose=true"]
    with pytest.raises(ConfigError, match="did you mean 'lam'"):
        forms("-m", "algorithm.lamm=0.05,0.2")
    with pytest.raises(ConfigError, match=r"algorithm.lam: algorithm has no 'lam'"):
        forms("-m", "algorithm=sharpo,grpo", "algorithm.lam=0.05")


def test_a_knob_of_a_part_that_no_yaml_names_can_be_set():
    parts = cli.Parts(cli.read("train", ["algorithm.bound.tau=2", "algorithm.baseline.scope=trajectories"]))
    assert parts.algorithm.bound.tau == 2
    assert parts.algorithm.baseline.scope == "trajectories"
    with pytest.raises(ConfigError, match=r"algorithm.bound has no 'tauu'; did you mean 'tau'"):
        cli.read("train", ["algorithm.bound.tauu=2"])


def test_a_folder_that_holds_another_run_is_not_written_over(tmp_path):
    run_folder.make(tmp_path, fresh=True)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    run_folder.make(tmp_path)  # going on with it
    with pytest.raises(DataError, match=r"holds the checkpoints of another run: .* ckpt=auto"):
        run_folder.make(tmp_path, fresh=True)


def test_more_training_tasks_than_there_are_are_refused_before_anything_is_loaded(tmp_path):
    message = refused("env=searchqa", "prompt=searchqa_windowed", "panel=none", root=tmp_path / "runs")
    assert message == "data.sizes.groups=16, but the train split has 14 tasks; lower it"
    assert not (tmp_path / "runs").exists()


def test_a_folder_of_a_run_that_is_alive_is_refused_to_every_other(tmp_path):
    with run_folder.claimed(tmp_path, fresh=True, first=True):
        with run_folder.claimed(tmp_path, fresh=True, first=False):  # another process of the same run
            pass
        for fresh in (True, False):
            with (
                pytest.raises(DataError, match="a run that is still alive has this folder: choose another"),
                run_folder.claimed(tmp_path, fresh=fresh, first=True),
            ):
                pass
    with run_folder.claimed(tmp_path, fresh=True, first=True):  # it has ended
        pass


@pytest.mark.parametrize(("code", "how", "exits"), [(None, "SIGTERM", 143), (1, "Ctrl-C", 130)])
def test_who_is_stopped_is_told_how_to_go_on_and_has_not_finished(tmp_path, capsys, code, how, exits):
    for first, told in ((True, f"stopped by {how}: there is no checkpoint yet\n"), (False, "")):
        with pytest.raises(SystemExit) as stopped, run_folder.claimed(tmp_path, fresh=True, first=first):
            raise SystemExit(code)
        assert (stopped.value.code, capsys.readouterr().err) == (exits, told)
    with pytest.raises(SystemExit, match="3"), run_folder.claimed(tmp_path, fresh=True, first=True):
        raise SystemExit(3)  # somebody else's
    assert capsys.readouterr().err == ""
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    with pytest.raises(SystemExit), run_folder.claimed(tmp_path, fresh=False, first=True):
        raise SystemExit(code)
    assert capsys.readouterr().err == f"stopped by {how}: go on with ckpt={tmp_path}/checkpoints/last.ckpt\n"


def test_sigterm_ends_a_run_at_once_and_what_was_there_before_is_put_back(tmp_path, capsys):
    before = signal.getsignal(signal.SIGTERM)

    def hit():
        with run_folder.claimed(tmp_path, fresh=True, first=True):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
            pytest.fail("it went on")

    with pytest.raises(SystemExit) as stopped:
        hit()
    assert (stopped.value.code, capsys.readouterr().err) == (143, "stopped by SIGTERM: there is no checkpoint yet\n")
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_file_system_without_locks_is_said(tmp_path, monkeypatch, capsys):
    def unsupported(file, how):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    with run_folder.claimed(tmp_path, fresh=True, first=True):
        assert "cannot be locked (Operation not supported)" in capsys.readouterr().err


def test_a_random_peer_is_drawn_from_the_runs_own_seed():
    assert cli.read("train", ["hint=peer_random", "seed=7"]).hint.seed == 7
