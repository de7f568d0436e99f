"""The benchmarks run small, and the GPU check refuses or composes where there is no GPU."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sharpo import cli

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "benchmarks" / "gpu_check.sh"
SMALL = ("experiment=household_demo", "model=tiny", "engine=hf", "data.sizes.groups=2", "data.sizes.group_size=2")


def program(*arguments, **more):
    return subprocess.run(
        arguments, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHON": sys.executable, **more},
    )  # fmt: skip


def gpu_steps() -> dict[str, list[str]]:
    """Name and overrides of every step of the script, with its shell variables filled in."""
    text = SCRIPT.read_text()
    found = re.search(r"^ALL=\((.*?)\)$", text, re.MULTILINE | re.DOTALL)
    assert found
    shared = [word for word in shlex.split(found.group(1)) if word != "$@"]
    steps = {}
    for name, rest in re.findall(r'step "([^"]+)" \d+ \w+ (.*) "\$\{ALL\[@\]\}"', text):
        steps[name] = [*shlex.split(rest), *(word.replace("$ACCELERATOR", "gpu") for word in shared)]
    return steps


def test_the_gpu_check_is_valid_shell_and_keeps_its_budget():
    assert program("bash", "-n", str(SCRIPT)).returncode == 0
    limits = [int(limit) for limit in re.findall(r'step "[^"]+" (\d+) ', SCRIPT.read_text())]
    assert len(limits) == len(gpu_steps()) == 5
    assert sum(limits) <= 8 * 60


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_the_gpu_check_refuses_without_a_gpu():
    done = program("bash", str(SCRIPT))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("gpu_check: this machine has no NVIDIA GPU")
    step = program(sys.executable, "benchmarks/gpu_check.py", "parity")
    assert step.returncode == 2
    assert step.stderr.startswith("gpu_check: torch sees no GPU")


@pytest.mark.parametrize("name", gpu_steps())
def test_every_step_of_the_gpu_check_composes(name, tmp_path, capsys):
    words = [word.replace("$OUT", str(tmp_path)) for word in gpu_steps()[name] if word != "engine.sleep=true"]
    assert cli.train(cli.read("train", [*words, "debug=plan"])) is None
    assert "weights" in capsys.readouterr().out


@pytest.mark.integration
def test_the_gpu_checks_parity_step_rehearses_on_a_cpu(tmp_path):
    words = [*SMALL, "gate=fp32", f"paths.root={tmp_path}"]
    done = program(sys.executable, "benchmarks/gpu_check.py", "parity", "--device", "cpu", *words)
    assert done.returncode == 0, done.stderr
    assert re.match(r"\| parity \| max_abs \S+, p99_abs \S+, mean_abs \S+ nats over \d+ tokens", done.stdout)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("script", "more", "rows"),
    [
        ("rollout_efficiency", ["--groups", "2", "--members", "2"], ["decode steps", "seconds", "success"]),
        ("update_overhead", [], ["bare loop", "trainer.fit", "ratio"]),
        ("method_cost", ["--repeats", "1"], ["dr_grpo", "sharpo", "sharpo_b", "step_opsd", "sdar", "scpo"]),
    ],
)
def test_a_benchmark_prints_its_table(script, more, rows, tmp_path):
    done = program(sys.executable, f"benchmarks/{script}.py", *more, *SMALL, f"paths.root={tmp_path}")
    assert done.returncode == 0, done.stderr
    for row in rows:
        assert f"\n| {row} |" in done.stdout
