"""A sweep in one command: members apart, skipped, resumed and reported, and the tables at its end."""

import csv
import doctest
import fcntl
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sharpo.callbacks.curve import FIELDS

from sharpo import compare, sweep
from sharpo.errors import DataError

REPOSITORY = Path(__file__).resolve().parent.parent.parent
SMALL = (
    "~experiment", "++name=tiny", "++env._target_=fatal_env.DiesOnce", "++env.max_turns=3",
    "wording=tiny", "engine=hf", "++engine.max_context=128",
    "++data.pool._target_=sharpo.rollout.env_pool.InlineEnvPool", "++data.sizes.groups=2",
    "++data.sizes.group_size=2", "++data.sizes.micro_rows=4", "++data.budgets.turn_tokens=4", "++model.path.width=32",
    "++model.path.heads=1", "++model.path.layers=1", "++model.path.feed_forward=32", "++panel.val.tasks=4",
    "++panel.greedy.tasks=2", "++trainer.accelerator=cpu", "++trainer.max_epochs=2",
    "++trainer.check_val_every_n_epoch=1", "++callbacks.progress.refresh_rate=0",
    "++trainer.enable_progress_bar=true",
)  # fmt: skip


def multirun(root, *arguments):
    path = os.pathsep.join(filter(None, [str(REPOSITORY / "tests"), os.environ.get("PYTHONPATH")]))
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "DIES_ONCE": str(root / "dies_once")}
    return subprocess.run(
        [sys.executable, str(REPOSITORY / "train.py"), "-m", "hparams_search=compare", *arguments, *SMALL,
         f"paths.root={root}"],
        cwd=root, capture_output=True, text=True, timeout=580, env={**os.environ, **environment}, check=False,
    )  # fmt: skip


def records(root):
    found = [sweep.read(path.parent) for path in root.glob("compare/tiny/*/member.json")]
    return {next(s for s in member.settings if s.startswith("algorithm="))[10:]: member for member, _ in found}


@pytest.mark.integration
@pytest.mark.timeout(1200)
def test_members_that_fail_do_not_lose_the_others_and_the_same_command_goes_on(tmp_path):
    (tmp_path / "dies_once").write_text("18")  # the first member's process is killed in its second collection
    done = multirun(tmp_path, "algorithm=grpo,imitation,sharpo", "seed=0")
    assert done.returncode == 1, done.stdout + done.stderr
    kept = records(tmp_path)
    assert {name: member.status for name, member in kept.items()} == {
        "grpo": "failed",
        "imitation": "failed",
        "sharpo": "finished",
    }
    assert kept["grpo"].message.startswith("ended by signal 9")
    assert kept["imitation"].message == "algorithm=imitation learns from an expert: choose engine=expert"
    lines = done.stdout.strip().splitlines()
    assert lines[-3] == "1 of 3 members finished"
    assert all(line.startswith("FAILED algorithm=") for line in lines[-2:])
    assert re.search(r"sharpo +0 +0 → 2 .* finished", done.stdout)

    assert kept["grpo"].checkpoint.is_file()
    half = kept["grpo"].seconds
    again = multirun(tmp_path, "algorithm=grpo,sharpo", "seed=0")
    assert again.returncode == 0, again.stdout + again.stderr
    kept = records(tmp_path)
    assert kept["grpo"].status == "finished"
    assert kept["grpo"].seconds > half
    assert "continues, see" in again.stdout
    assert "finished before" in again.stdout
    with (kept["grpo"].folder / "curve.csv").open() as file:
        assert [
            row["iteration"] for row in csv.DictReader(file) if (row["panel"], row["family"]) == ("val", "all")
        ] == [
            "0",
            "1",
            "2",
        ]
    assert re.search(r"grpo +0 +0 → 2 .* finished\n(.*\n)*sharpo +0 +0 → 2 ", again.stdout)
    assert "Few seeds do not rank methods" in again.stdout
    assert (tmp_path / "compare/tiny/compare_val.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.integration
def test_a_plan_names_each_members_own_folder_and_makes_none(tmp_path):
    done = multirun(tmp_path, "algorithm=grpo,sharpo", "seed=0,1", "debug=plan")
    assert done.returncode == 0, done.stdout + done.stderr
    folders = re.findall(r"^ +(\S+)/config.yaml$", done.stdout, re.MULTILINE)
    names = sorted(Path(folder).name for folder in folders if folder.startswith(str(tmp_path)))
    starts = [f"algorithm={name},seed={seed}," for name in ("grpo", "sharpo") for seed in (0, 1)]
    assert [name.startswith(start) for name, start in zip(names, starts, strict=True)] == [True] * 4
    assert not any("plan" in name for name in names)
    assert not list(tmp_path.glob("compare/*/*/member.json"))


# -- one member -----------------------------------------------------------------------------------------------------
CONFIG = {"seed": 0, "trainer": {"max_epochs": 2}, "ckpt": None, "logger": {}}


@pytest.fixture
def started(monkeypatch):
    """Count the processes that a member would start; each ends well."""
    commands = []

    def process(command, **_):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(sweep.subprocess, "run", process)
    return commands


def member(folder, **changes):
    return sweep.run_member(folder, ["algorithm=grpo", "seed=0"], "seed: 0\n", {**CONFIG, **changes})


def test_a_finished_member_is_skipped_and_an_unfinished_one_continues(tmp_path, started):
    folder = tmp_path / "m"
    assert member(folder).status == "finished"
    assert member(folder, ckpt="auto", paths={"root": "elsewhere"}).status == "finished"
    assert len(started) == 1
    assert started[0][-1] == "ckpt=auto"
    sweep.Member(folder, ("algorithm=grpo", "seed=0"), 0, "running", seconds=5.0).write(CONFIG)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints/last.ckpt").touch()
    assert member(folder).seconds > 5.0
    assert len(started) == 2


def test_a_member_starts_from_the_checkpoint_that_was_asked_for_and_continues_from_its_own(tmp_path, started):
    member(tmp_path / "m", ckpt="/models/warm.ckpt")
    assert "ckpt=auto" not in started[0]
    sweep.Member(tmp_path / "m", (), 0, "failed").write({**CONFIG})
    (tmp_path / "m/checkpoints").mkdir()
    (tmp_path / "m/checkpoints/last.ckpt").touch()
    member(tmp_path / "m", ckpt="/models/warm.ckpt")
    assert started[1][-1] == "ckpt=auto"


def test_a_member_is_named_in_wandb_after_its_folder(tmp_path, started):
    member(tmp_path / "sweep/m", logger={"wandb": {}})
    assert started[0][-2:] == ["logger.wandb.name=m", "logger.wandb.group=sweep"]


def test_other_settings_in_the_same_folder_are_refused(tmp_path, started):
    member(tmp_path / "m")
    refused = member(tmp_path / "m", trainer={"max_epochs": 9})
    assert refused.status == "failed"
    assert "begun with other settings (trainer.max_epochs: 2 → 9)" in refused.message
    assert sweep.read(tmp_path / "m")[0].status == "finished"
    assert len(started) == 1


def test_a_folder_that_another_process_holds_is_left_alone(tmp_path, started):
    (tmp_path / "m").mkdir()
    with (tmp_path / "m/.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = member(tmp_path / "m")
    assert (held.status, held.message) == ("failed", "a process that still runs has its folder")
    assert started == []
    assert member(tmp_path / "m").status == "finished"


def test_a_record_that_cannot_be_read_fails_its_own_member_only(tmp_path, started):
    (tmp_path / "m").mkdir()
    (tmp_path / "m/member.json").write_text("{")
    broken = member(tmp_path / "m")
    assert broken.status == "failed"
    assert "delete the file" in broken.message


def test_no_secret_stays_in_a_members_record(tmp_path, started, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "planted-secret")
    member(tmp_path / "m", note="planted-secret", model={"api_key": "another"})
    text = (tmp_path / "m/member.json").read_text()
    assert "planted-secret" not in text
    assert "another" not in text


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (["algorithm=grpo", "seed=1"], ["seed=1", "algorithm=grpo"], True),
        (["seed=1", "paths.root=a", "logger=wandb", "callbacks=quiet", "ckpt=last"], ["seed=1"], True),
        (["seed=1", "logger.wandb.name=x", "hparams_search=compare"], ["+seed=1"], True),
        (["seed=1"], ["seed=2"], False),
        (["model.path=a/b"], ["model.path=a_b"], False),
        (["model.path=" + "x" * 200 + "1"], ["model.path=" + "x" * 200 + "2"], False),
        (["algorithm=grpo"], ["algorithm=grpo", "optimizer.lr=1e-3"], False),
    ],
)
def test_settings_alone_name_a_folder(one, other, same):
    first, second = sweep.folder_name(one), sweep.folder_name(other)
    assert (first == second) is same
    assert "/" not in first
    assert len(first) < 200


def test_the_newest_logged_value_is_the_sweeps(tmp_path):
    for version, text in (("0", "step,a\n1,0.1\n2,\n"), ("2", "step,a\n3,0.3\n"), ("10", "step,b\n4,1\n")):
        (tmp_path / f"metrics/version_{version}").mkdir(parents=True)
        (tmp_path / f"metrics/version_{version}/metrics.csv").write_text(text)
    assert sweep.last_value(tmp_path, "a") == 0.3
    assert math.isnan(sweep.last_value(tmp_path, "c"))


# -- the tables ------------------------------------------------------------------------------------------------------
def points(root, method, seed, ends, status="finished", panel="val"):
    """Leave a member's folder with a curve: ``ends`` = {iteration: (of 10 pick, of 10 look)}."""
    settings = (f"algorithm={method}", f"seed={seed}", "trainer.max_epochs=2")
    folder = root / sweep.folder_name(settings)
    folder.mkdir(parents=True)
    sweep.Member(folder, settings, seed, status).write({})
    with (folder / "curve.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for iteration, (pick, look) in ends.items():
            for family, won, seen in (("pick", pick, 10), ("look", look, 10), ("all", pick + look, 20)):
                writer.writerow([iteration, 0, panel, family, 0, 0, 0, won, seen])


@pytest.fixture
def folder(tmp_path):
    # after: grpo 0.5 and 0.7, sharpo 0.6 and 0.9; before: 0.2 for all
    points(tmp_path, "sharpo", 0, {0: (2, 2), 5: (3, 4), 10: (6, 6)})
    points(tmp_path, "sharpo", 1, {0: (2, 2), 5: (3, 4), 10: (9, 9)})
    points(tmp_path, "grpo", 0, {0: (2, 2), 5: (3, 4), 10: (4, 6)})
    points(tmp_path, "grpo", 1, {0: (2, 2), 5: (3, 4), 10: (6, 8)})
    points(tmp_path, "rlsd", 0, {0: (2, 2)}, status="failed")
    return tmp_path


def test_one_line_a_member_with_intervals_and_families(folder):
    lines = compare.member_table(compare.load(folder, "val")).splitlines()
    assert [line.split()[0] for line in lines] == ["method", "grpo", "grpo", "rlsd", "sharpo", "sharpo"]
    # Wilson, 10 of 20: 0.5 ± 1.96·√(0.25/20 + 1.96²/1600)/(1 + 1.96²/20) = 0.5 ± 0.2007
    assert re.split(r" {2,}", lines[1]) == [
        "grpo", "0", "0 → 10", "0.200 [0.081, 0.416]", "0.500 [0.299, 0.701]", "20", "0.40", "0.60", "finished",
    ]  # fmt: skip
    assert lines[3].endswith("failed")


def test_mean_and_deviation_over_seeds_and_the_baseline_beside_each_method(folder):
    lines = [re.split(r" {2,}", line) for line in compare.method_table(compare.load(folder, "val")).splitlines()]
    # grpo: mean 0.6, SD √((0.1² + 0.1²)/1) = 0.1414; sharpo: mean 0.75, SD √(2·0.15²) = 0.2121
    assert lines[1] == ["grpo", "2", "0.200 ± 0.000", "0.600 ± 0.141", "0.400 ± 0.141", "0.50", "0.70", "-", "-", "-"]
    # by seed: 0.6 − 0.5 = 0.1 and 0.9 − 0.7 = 0.2: mean 0.15, SD 0.0707; two of two better: p = 2·¼
    assert lines[2] == [
        "sharpo", "2", "0.200 ± 0.000", "0.750 ± 0.212", "0.550 ± 0.212", "0.75", "0.75", "0.150 ± 0.071", "2:0",
        "0.50",
    ]  # fmt: skip
    assert len(lines) == 3  # a failed member is in no mean


def test_the_report_says_that_few_seeds_do_not_rank(folder):
    text = compare.report(folder)
    # pooled SD √((0.02 + 0.045)/2) = 0.1803; n = 2·((1.960 + 0.8416)·0.1803/0.03)² = 566.9…
    assert "Few seeds do not rank methods" in text
    assert "2 seed(s) a method, SD over seeds 0.180" in text
    assert "about 567 seeds a method" in text
    assert "cannot fall below 0.5 with 2" in text
    assert (folder / "compare_val.png").stat().st_size > 1000


def test_one_seed_has_no_spread(tmp_path):
    points(tmp_path, "grpo", 0, {0: (2, 2), 5: (3, 4)})
    assert "not even a spread" in compare.report(tmp_path)
    assert "0.350 ± ?" in compare.report(tmp_path)


def test_nothing_finished_is_said(tmp_path):
    points(tmp_path, "grpo", 0, {}, status="running")
    assert "No member is finished" in compare.report(tmp_path)


def test_the_tables_of_another_panel_and_of_nothing(folder, tmp_path):
    with pytest.raises(DataError, match="--panel=greedy: the runs have val"):
        compare.load(folder, "greedy")
    with pytest.raises(DataError, match="holds no member of a sweep"):
        compare.load(tmp_path / "empty", "val")


def test_the_program_shows_the_tables_and_a_mistake_is_one_message(folder):
    command = [sys.executable, "-m", "sharpo.compare"]
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "minus grpo" in done.stdout
    wrong = subprocess.run([*command, str(folder / "none")], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: ")
    assert len(wrong.stderr.splitlines()) == 1


def test_the_numbers_of_the_page_are_what_the_program_says():
    page = REPOSITORY / "docs" / "compare.md"
    assert doctest.testfile(str(page), module_relative=False) == doctest.TestResults(failed=0, attempted=2)
