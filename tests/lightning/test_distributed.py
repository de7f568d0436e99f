"""Two gloo processes reach the weights of one, under DDP and FSDP2, with publishing and a resume in between."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import small_run
import torch

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
# one update per epoch, so that the order in which rows meet the optimizer is the same; a large eps keeps AdamW smooth
# where a gradient is nearly zero, so that rounding in another order of summation stays rounding; seven tasks, which
# two processes cannot share evenly
RUN = ("validate_first=false", "optimizer.eps=1e-3", "seed=3", "panel.val.tasks=7")
SHARPO = (*RUN, "algorithm=sharpo", "algorithm.lam=1.0", "optimizer.lr=1e-2")  # a teacher's weights count: 7e-4
OPSD = (*RUN, "algorithm=opsd", "algorithm.coef=10", "hint=peer")
AT_ONCE = ("data.sizes.micro_rows=8",)
IN_PARTS = ("data.sizes.micro_rows=2", "trainer.accumulate_grad_batches=4")
SAME = {  # case -> the run, and how two processes do it
    "ddp_averaged": ((*SHARPO, "teacher=ema(0.5)"), ("strategy=ddp", *AT_ONCE)),
    "fsdp2_shared": ((*SHARPO, "teacher=shared"), ("strategy=fsdp2", *AT_ONCE)),
    "fsdp2_averaged": ((*SHARPO, "teacher=ema(0.5)"), ("strategy=fsdp2", *AT_ONCE)),
    "ddp_whole_distributions": ((*OPSD, "algorithm.loss=jsd_full"), ("strategy=ddp", *IN_PARTS)),
    "fsdp2_top_tokens": ((*OPSD, "algorithm.loss=jsd_topk", "algorithm.top_k=5"), ("strategy=fsdp2", *IN_PARTS)),
    "fsdp2_frozen": ((*OPSD, "algorithm.loss=jsd_full", "teacher=frozen"), ("strategy=fsdp2", *IN_PARTS)),
}
CONTROL = (
    "algorithm=sharpo", "validate_first=false", "strategy=fsdp2", "data.sizes.micro_rows=2", "data.sizes.groups=12",
    "+callbacks.credit._target_=sharpo.callbacks.credit_report.CreditReport",
)  # fmt: skip
TOLERANCE = 1e-5
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def launch(program, *arguments, seconds=240):
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environment.pop("PYTEST_CURRENT_TEST", None)
    command = [sys.executable, str(program), *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=seconds)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def together(root):
    """Every case in the same two processes, one after the other: ``together("ddp_averaged")`` -> its result."""
    cases = {name: (*run, *way) for name, (run, way) in SAME.items()} | {"control": CONTROL}
    common = (*small_run.SMALL, "trainer.devices=2", f"paths.root={root}")
    (root / "cases.json").write_text(json.dumps({name: [*common, *more] for name, more in cases.items()}))
    done = launch(HERE / "processes.py", root, seconds=540)

    def find(case):
        assert (root / case / "result.pt").is_file(), done.stderr[-3000:]
        return torch.load(root / case / "result.pt")

    yield find
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def alone(root):
    """The run in this process, each once: ``alone(settings)`` -> (metrics, weights, initial weights)."""
    kept = {}

    def run(settings):
        if settings not in kept:
            folder = root / f"alone_{len(kept)}"
            trainer, module, _ = small_run.train(root, *settings, "data.sizes.micro_rows=16", folder=folder)
            metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
            kept[settings] = metrics, dict(module.policy.named_weights()), dict(module.make_policy().named_weights())
        return kept[settings]

    return run


@pytest.mark.parametrize("case", SAME)
def test_two_processes_reach_the_weights_of_one(together, alone, case):
    result = together(case)
    metrics, mine, start = alone(SAME[case][0])
    assert result["weights"].keys() == mine.keys()
    for name, tensor in mine.items():
        assert (tensor - result["weights"][name]).abs().max() <= TOLERANCE, name
    assert max(float((mine[name] - start[name]).abs().max()) for name in mine) > 100 * TOLERANCE
    assert result["collections"] == 2
    # the same episodes: both processes sampled from the published weights, and every metric is summed over them
    names = ["rollout/success", "val/success/all", "val/episodes/all", "rollout/episodes"]
    if "algorithm=opsd" in SAME[case][0]:
        names += ["train/taught_share", "train/auxiliary_loss"]
        assert 0 < metrics["train/taught_share"] < 1  # rows with and without a hint
    for name in names:
        assert result["metrics"][name] == pytest.approx(metrics[name], abs=1e-6), name
    assert metrics["val/episodes/all"] == 7
    assert result["metrics"]["gate/max_abs"] < 1e-3


def test_sharded_processes_make_the_same_number_of_passes_for_the_control(together, root):
    assert 0 < together("control")["metrics"]["credit/control_rows"] <= 32  # 16 of each process
    assert len(list((root / "control/second/credit").glob("*.png"))) == 1


def test_train_py_launches_its_second_process_into_the_same_folder(tmp_path):
    done = launch(
        REPOSITORY / "train.py", *small_run.SMALL, "validate_first=false", "strategy=ddp", "trainer.devices=2",
        "trainer.max_epochs=1", "data.sizes.micro_rows=8", f"paths.root={tmp_path}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    runs = list((tmp_path / "test").iterdir())
    assert len(runs) == 1
    assert (runs[0] / "checkpoints/last.ckpt").is_file()
    assert (runs[0] / "config.yaml").is_file()
    assert done.stdout.count("run: ") == 1
