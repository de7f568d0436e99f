"""A mistake gives one message that names the field and the remedy, exit code 2, and no traceback."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from sharpo import checks, cli
from sharpo.errors import ConfigError, DataError, SharpoError

REPOSITORY = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def refused(monkeypatch, capsys):
    """Run ``train.py`` in this process: ``refused(*arguments)`` -> what it said on stderr before exit code 2."""
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")  # main sets it

    def start(*arguments):
        monkeypatch.setattr("sys.argv", ["train.py", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == 2
        said = capsys.readouterr()
        assert said.out in ("", "starting the engine and the environments\n")
        return said.err

    return start


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["experiment=household_dem"],
            "household_dem: there is no such choice; did you mean 'household_demo'",
        ),
        (["algorithm.lamm=0.1"], "algorithm.lamm: algorithm has no 'lamm'; did you mean 'lam'"),
        (["trainer.max_epoch=3"], "trainer has no 'max_epoch'; did you mean 'max_epochs'"),
        (["data.sizes.group_siz=3"], "did you mean 'group_size'"),
        (["sead=1"], "the configuration has no 'sead'; did you mean 'seed'"),
        (["algorithm.policy_loss.clip_low=0.1"], "that part is policy_loss: set policy_loss.clip_low=0.1"),
        (["algorithm=sharpo,grpo"], "algorithm=sharpo,grpo: one run has one algorithm; add -m for a run of each"),
        (["nonsense"], "'nonsense' is not of the form key=value"),
        (["~experiment"], "name has no value: give it, for example name="),
    ],
)
def test_a_setting_that_does_not_exist(arguments, message):
    with pytest.raises(ConfigError) as caught:
        cli.read("train", arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data.sizes.group_size=1"], "data.sizes.group_size=1"),
        (["experiment=sharpo_webshop", "env.catalogue=nowhere"], "no WebShop catalogue in nowhere"),
        (["strategy=fsdp", "trainer.accelerator=cpu"], "strategy=fsdp needs a GPU; on a CPU use strategy=fsdp2"),
        (["++panel.mine.tasks=4"], "panel.mine={'tasks': 4}: the chosen group has no such part"),
        (["trainer.devices=2"], "trainer.devices=2 needs strategy=ddp or strategy=fsdp2"),
        (["trainer.precision=bf16-true"], "use bf16-mixed"),
        (["algorithm=imitation"], "choose engine=expert"),
        (["engine=expert"], "engine=expert plays the oracle"),
        (["hint=none"], "hint=none leaves Sharpo's teacher nothing"),
        (["algorithm.span=think"], "algorithm.span=think needs answers with a <think> part"),
        (["algorithm.baseline.scope=episodes"], "algorithm.baseline.scope must be rows or trajectories"),
        (["env.receptacles=99"], "env.receptacles must be"),
        (["schedule=cosine"], "schedule='cosine': must be null, or a part with a _target_, for example"),
        (["panel.val.tasks=999999999"], "panel.val.tasks=999999999: must be at least 1 and at most 100000"),
        (["panel.val.temperature=-1"], "panel.val.temperature=-1: must be at least 0"),
    ],
)
def test_a_choice_that_the_parts_cannot_honour(arguments, message):
    with pytest.raises(SharpoError) as caught:
        cli.Parts(cli.read("train", arguments))
    assert message in str(caught.value)


def test_the_first_sharding_is_refused_where_it_would_shard(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    arguments = ["strategy=fsdp", "trainer.devices=2", "engine=hf"]
    with pytest.raises(ConfigError, match=r"strategy=fsdp with trainer.devices=2: .* use strategy=fsdp2"):
        cli.Parts(cli.read("train", arguments))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (0, r"trainer.accelerator=gpu: PyTorch sees no GPU on this machine; .*trainer.accelerator=cpu"),
        (1, r"trainer.devices=2: this machine has 1 GPU\(s\); choose at most as many"),
    ],
)
def test_gpus_that_the_machine_does_not_have(found, message, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: found)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    parts = cli.Parts(cli.read("train", ["trainer.accelerator=gpu", "trainer.devices=2", "strategy=ddp", "engine=hf"]))
    with pytest.raises(ConfigError, match=message):
        parts.trainer()


def test_without_a_teacher_no_hint_is_needed():
    cli.Parts(cli.read("train", ["hint=none", "algorithm=grpo"]))


def test_a_knob_that_yaml_leaves_at_its_default_can_be_set():
    cfg = cli.read("train", ["algorithm.lam=0.1", "trainer.gradient_clip_algorithm=norm"])
    assert cfg.algorithm.lam == 0.1
    assert cfg.trainer.gradient_clip_algorithm == "norm"


def test_a_schedule_is_given_as_its_message_says():
    cfg = cli.read("train", ["schedule={_target_: sharpo.policy.optim.warm_up, updates: 100}"])
    checks.check_values(OmegaConf.to_container(cfg))
    assert cfg.schedule.updates == 100


def test_a_missing_model_says_how_to_make_it(tmp_path):
    parts = cli.Parts(cli.read("train", [f"paths.root={tmp_path}"]))
    with pytest.raises(DataError, match=r"holds no model .*python train.py experiment=household_warmstart"):
        parts.module()


def test_another_missing_model_is_not_made_by_that_command(tmp_path):
    parts = cli.Parts(cli.read("train", [f"paths.root={tmp_path}", f"model.path={tmp_path}/mine"]))
    with pytest.raises(DataError, match=r"mine' holds no model .*: give a folder with config.json") as caught:
        parts.module()
    assert "household_warmstart" not in str(caught.value)


def test_missing_alfworld_games_say_where_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    with pytest.raises(SharpoError, match=r"sharpo.data alfworld download"):
        cli.Parts(cli.read("train", ["experiment=alfworld_tiny"]))


@pytest.mark.integration
def test_the_program_prints_one_message_and_exits_with_2():
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "train.py"), "data.sizes.group_size=1"], cwd=REPOSITORY, check=False,
        capture_output=True, text=True, timeout=280, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("error: data.sizes.group_size=1")


def test_the_traceback_is_there_when_asked_for(refused, monkeypatch):
    assert "Traceback" not in refused("experiment=nothing")
    monkeypatch.setenv("SHARPO_DEBUG", "1")
    said = refused("experiment=nothing")
    assert "Traceback" in said
    assert said.strip().splitlines()[-1].startswith("error: experiment=nothing")


def test_vllm_absent_is_said_before_anything_is_loaded(refused, tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name.partition(".")[0] == "vllm" else real(name, *a)
    )
    monkeypatch.setattr("sharpo.policy.causal_lm.CausalPolicy.__init__", lambda *_, **__: pytest.fail("loaded"))
    said = refused("model=tiny", f"paths.root={tmp_path}")
    assert len(said.strip().splitlines()) == 1, said
    assert "engine=vllm needs vLLM, which is not installed" in said


def test_ctrl_c_before_training_is_one_line(monkeypatch, capsys):
    def interrupted(cfg):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["train.py", "seed=1"])
    with pytest.raises(SystemExit) as ended:
        cli.main(interrupted)
    assert (ended.value.code, capsys.readouterr().err) == (130, "stopped by Ctrl-C\n")
