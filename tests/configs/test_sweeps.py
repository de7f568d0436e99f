"""The W&B sweeps: every member composes, and the command is what `wandb agent` starts and train.py takes."""

import csv
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from sharpo import overrides
from sharpo.cli import build, read

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIGS = ROOT / "configs"
SWEEPS = {"household": "household_demo", "alfworld": "sharpo_alfworld", "webshop": "sharpo_webshop"}
METHODS = {
    "grpo": ("Grpo", None),
    "step_opsd": ("StepOpsd", 0.2),
    "step_opsd_l005": ("StepOpsd", 0.05),
    "sharpo": ("Sharpo", 0.2),
    "sharpo_l005": ("Sharpo", 0.05),
}


def spec(name):
    return OmegaConf.to_container(OmegaConf.load(CONFIGS / "sweep" / f"compare_{name}.yaml"))


def members(sweep):
    """The grid, as a W&B server hands it out: every combination of the parameters' values."""
    names = list(sweep["parameters"])
    for values in itertools.product(*(sweep["parameters"][name]["values"] for name in names)):
        yield {name: {"value": value} for name, value in zip(names, values, strict=True)}


def command(sweep, args):
    """What `wandb agent` starts: its own functions, put together as its `_command_run` does."""
    utils = pytest.importorskip("wandb.sdk.launch.sweeps.utils", reason="W&B is an optional part")
    words = utils.create_sweep_command(list(sweep["command"]))
    variables = utils.create_sweep_command_args({"args": args})
    variables |= {"interpreter": ["python"], "program": [sweep["program"]], "env": ["/usr/bin/env"]}
    out = []
    for word in words:
        macro = word[2:-1] if word.startswith("${") and word.endswith("}") else None
        out += variables[macro] if macro else [word]
    return out


def test_there_is_a_specification_for_each_comparison():
    assert {path.stem for path in (CONFIGS / "sweep").glob("*.yaml")} == {f"compare_{name}" for name in SWEEPS}


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_asks_for_the_logged_metric_of_a_grid_of_known_choices(name):
    sweep = spec(name)
    assert sweep["metric"] == {"name": read("train", [f"experiment={SWEEPS[name]}"]).swept, "goal": "maximize"}
    assert sweep["metric"]["name"] == "val/success/all"  # what LogSuccessByFamily logs
    assert (sweep["method"], sweep["program"]) == ("grid", "train.py")
    assert (ROOT / sweep["program"]).is_file()
    assert sweep["parameters"]["algorithm"]["values"] == list(METHODS)
    assert len(sweep["parameters"]["seed"]["values"]) >= 3


@pytest.mark.parametrize("name", SWEEPS)
def test_every_member_composes_from_the_agents_own_command(name, monkeypatch):
    sweep, seen = spec(name), set()
    monkeypatch.setenv("WANDB_RUN_ID", "r4nd0m")
    for args in members(sweep):
        started = command(sweep, args)
        assert started[:3] == ["/usr/bin/env", "python", "train.py"]
        assert not [word for word in started if word.startswith(("-", "${"))]
        assert not overrides.wants_hydra(started[3:])
        cfg = read("train", started[3:])
        kind, lam = METHODS[args["algorithm"]["value"]]
        method = build(cfg.algorithm, "algorithm")
        assert type(method).__name__ == kind
        assert getattr(method, "lam", None) == lam
        assert (cfg.seed, cfg.name, cfg.ckpt) == (args["seed"]["value"], SWEEPS[name], "auto")
        assert cfg.paths.run == f"{cfg.paths.root}/sweeps/compare_{name}/r4nd0m"
        assert cfg.logger.wandb.name is None
        seen.add(OmegaConf.to_yaml(cfg))
    assert len(seen) == 15


@pytest.mark.parametrize("name", SWEEPS)
def test_the_offline_comparison_has_the_same_members(name):
    params = OmegaConf.load(CONFIGS / "hparams_search" / "compare.yaml").hydra.sweeper.params
    offline = {key: [str(x).strip() for x in str(value).split(",")] for key, value in params.items()}
    assert offline == {key: list(map(str, value["values"])) for key, value in spec(name)["parameters"].items()}


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_one_member_runs_two_iterations_offline_and_again_continues_the_same_wandb_run(tmp_path):
    pytest.importorskip("wandb", reason="W&B is an optional part")
    sweep = spec("household")
    args = {"algorithm": {"value": "sharpo_l005"}, "seed": {"value": 1}}
    given = tmp_path / "given.yaml"  # the agent leaves the member's parameters here for wandb.init
    given.write_text("wandb_version: 1\nalgorithm:\n  value: sharpo_l005\nseed:\n  value: 1\n")
    alone = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}  # not another test's service
    environment = {
        **alone, "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_RUN_ID": "m3mber",
        "WANDB_SWEEP_ID": "sw33p", "WANDB_SWEEP_PARAM_PATH": str(given),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    tiny = [
        "debug=fast", "model=tiny", "engine=hf", "trainer.accelerator=cpu", "env.max_turns=4", f"paths.root={tmp_path}",
        "data.pool._target_=sharpo.rollout.env_pool.InlineEnvPool", "callbacks.progress.refresh_rate=0",
        "trainer.enable_progress_bar=true",
    ]  # fmt: skip
    for epochs in (2, 3):
        words = [*command(sweep, args), *tiny, f"trainer.max_epochs={epochs}"]
        done = subprocess.run(
            words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "sweeps" / "compare_household" / "m3mber"
    with (run / "curve.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["family"] == "all"]
    assert [int(row["iteration"]) for row in rows] == [1, 2, 3]
    assert len(list(run.glob("wandb/offline-run-*-m3mber"))) == 2
