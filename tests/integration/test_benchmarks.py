"""The benchmarks run small, and the GPU check refuses or composes where there is no GPU."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sharpo import cli
from sharpo.errors import ConfigError
from sharpo.overrides import choices

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "benchmarks" / "gpu_check.sh"
SMALL = ("experiment=household_demo", "model=tiny", "engine=hf", "data.sizes.groups=2", "data.sizes.group_size=2")
INLINE = "data.pool._target_=sharpo.rollout.env_pool.InlineEnvPool"


def program(*arguments, **more):
    return subprocess.run(
        arguments, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHON": sys.executable, **more},
    )  # fmt: skip


@pytest.fixture
def script(monkeypatch, capsys):
    """Run a benchmark in this process, as ``python benchmarks/NAME.py`` does: (exit code, stdout, stderr)."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")  # the command line sets it

    def run(name, *arguments):
        path, code = str(ROOT / "benchmarks" / f"{name}.py"), 0
        monkeypatch.setattr("sys.argv", [path, *arguments])
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run


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
def test_the_gpu_check_refuses_without_a_gpu(script):
    done = program("bash", str(SCRIPT))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("gpu_check: this machine has no NVIDIA GPU")
    code, _, wrong = script("gpu_check", "parity")
    assert code == 2
    assert wrong.startswith("gpu_check: torch sees no GPU")


@pytest.mark.parametrize("name", gpu_steps())
def test_every_step_of_the_gpu_check_composes(name, tmp_path, capsys):
    words = [word.replace("$OUT", str(tmp_path)) for word in gpu_steps()[name] if word != "engine.sleep=true"]
    assert cli.train(cli.read("train", [*words, "debug=plan"])) is None
    assert "weights" in capsys.readouterr().out


@pytest.mark.integration
def test_the_gpu_checks_parity_step_rehearses_on_a_cpu(script, tmp_path):
    words = [*SMALL, INLINE, "gate=fp32", f"paths.root={tmp_path}"]
    code, said, wrong = script("gpu_check", "parity", "--device", "cpu", *words)
    assert code == 0, wrong
    assert re.match(r"\| parity \| max_abs \S+, p99_abs \S+, mean_abs \S+ nats over \d+ tokens", said)


@pytest.mark.integration
def test_rollout_efficiency_prints_its_table_with_worker_processes(tmp_path):
    words = ["--groups", "2", "--members", "2", *SMALL, f"paths.root={tmp_path}"]
    done = program(sys.executable, "benchmarks/rollout_efficiency.py", *words)
    assert done.returncode == 0, done.stderr
    for row in ("decode steps", "seconds", "success"):
        assert f"\n| {row} |" in done.stdout


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "more", "rows"),
    [
        ("update_overhead", [INLINE], ["bare loop", "trainer.fit", "ratio"]),
        ("method_cost", ["--repeats", "1", "--methods", "dr_grpo,sharpo,opsd_jsd", INLINE],
         ["dr_grpo", "sharpo", "opsd_jsd"]),
    ],
)  # fmt: skip
def test_a_benchmark_prints_its_table(script, name, more, rows, tmp_path):
    code, said, wrong = script(name, *more, *SMALL, f"paths.root={tmp_path}")
    assert code == 0, wrong
    for row in rows:
        assert f"\n| {row} |" in said


def test_method_cost_finds_the_methods_that_learn_from_their_own_episodes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    found = runpy.run_path(str(ROOT / "benchmarks" / "method_cost.py"))
    assert sorted(path.stem for path in found["FOLDER"].glob("*.yaml")) == choices()["algorithm"]
    for name in ("sharpo", "imitation", "imitation_long", "grpo", "dr_grpo"):
        (tmp_path / f"{name}.yaml").touch()
    methods = found["methods"]
    monkeypatch.setitem(methods.__globals__, "FOLDER", tmp_path)
    assert methods([]) == ["dr_grpo", "sharpo"]
    with pytest.raises(ConfigError, match="--methods imitation: it does not learn from its own episodes"):
        methods([], ["sharpo", "imitation"])
