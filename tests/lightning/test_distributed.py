"""Two gloo processes reach the weights of one, under DDP and FSDP2, with publishing and a resume in between."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
# one update per epoch, so that the order in which rows meet the optimizer is the same; a large eps keeps AdamW smooth
# where a gradient is nearly zero, so that rounding in another order of summation stays rounding
ONE_UPDATE = ("validate_first=false", "algorithm=sharpo", "optimizer.eps=1e-3", "callbacks=quiet", "seed=3")
TOLERANCE = 1e-5


def launch(program, *arguments, seconds=240):
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environment.pop("PYTEST_CURRENT_TEST", None)
    command = [sys.executable, str(program), *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=seconds)


@pytest.mark.integration
@pytest.mark.parametrize(("strategy", "teacher"), [("ddp", "ema(0.5)"), ("fsdp2", "shared"), ("fsdp2", "ema(0.5)")])
def test_two_processes_reach_the_weights_of_one(fit, small, tmp_path, strategy, teacher):
    one, module, _ = fit(*ONE_UPDATE, "data.sizes.micro_rows=16", f"teacher={teacher}")
    two = launch(
        HERE / "processes.py", tmp_path, *small, *ONE_UPDATE, f"strategy={strategy}", "trainer.devices=2",
        f"teacher={teacher}", "data.sizes.micro_rows=8", f"paths.root={tmp_path}",
    )  # fmt: skip
    assert two.returncode == 0, two.stderr[-3000:]
    result = torch.load(tmp_path / "result.pt")
    mine = dict(module.policy.named_weights())
    assert result["weights"].keys() == mine.keys()
    start = dict(module.make_policy().named_weights())
    for name, tensor in mine.items():
        assert (tensor - result["weights"][name]).abs().max() <= TOLERANCE, name
    assert max(float((mine[name] - start[name]).abs().max()) for name in mine) > 100 * TOLERANCE
    assert result["collections"] == 2
    # the same episodes: both processes sampled from the published weights, and every metric is summed over them
    for name in ("rollout/success", "val/success/all", "val/episodes/all", "rollout/episodes"):
        assert result["metrics"][name] == pytest.approx(float(one.callback_metrics[name]), abs=1e-6), name
    assert result["metrics"]["gate/max_abs"] < 1e-3


@pytest.mark.integration
def test_train_py_launches_its_second_process_into_the_same_folder(small, tmp_path):
    done = launch(
        REPOSITORY / "train.py", *small, "validate_first=false", "strategy=ddp", "trainer.devices=2",
        "trainer.max_epochs=1", "data.sizes.micro_rows=8", f"paths.root={tmp_path}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    runs = list((tmp_path / "test").iterdir())
    assert len(runs) == 1
    assert (runs[0] / "checkpoints/last.ckpt").is_file()
    assert (runs[0] / "config.yaml").is_file()
    assert done.stdout.count("run: ") == 1
