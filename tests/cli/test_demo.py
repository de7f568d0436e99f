"""The demo's table comes from the run's own CSV, and its warm start is reused."""

import csv
from pathlib import Path

import pytest
from rich.console import Console
from sharpo.callbacks.curve import FIELDS

from sharpo import cli, demo


def write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        writer.writerows(rows)


def test_the_table_shows_the_first_and_the_last_validation(tmp_path):
    rows = [
        (iteration, 0, panel, family, 0, 0, 0, won, 10)
        for iteration, won in ((0, 2), (5, 4), (20, 7))
        for panel in ("val", "greedy")
        for family in ("pick", "all")
    ]
    write(tmp_path / "curve.csv", rows)
    first, before, last, after = demo.read_counts(tmp_path / "curve.csv")
    assert (first, last) == (0, 20)
    assert before["val", "all"] == (2, 10)
    assert after["greedy", "pick"] == (7, 10)
    console = Console(width=200, record=True)
    console.print(demo.table(tmp_path / "curve.csv"))
    text = console.export_text()
    for wanted in ("temperature 1: before", "greedy: before", "0.20 [0.06, 0.51] (10)", "0.70 [0.40, 0.89] (10)"):
        assert wanted in text


@pytest.mark.integration
def test_a_failed_stage_ends_the_demo_with_its_code(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        demo.train("experiment=household_dmo")
    assert stop.value.code == 2
    assert "household_demo" in capfd.readouterr().err


def test_help_starts_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    demo.main(["--help"])
    assert "make demo" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_the_files_named_at_the_end_are_those_of_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "RUNS", tmp_path)
    monkeypatch.setattr(demo, "WARM", tmp_path / "models")
    monkeypatch.setenv("COLUMNS", "300")

    def train(*arguments):
        cfg = cli.read("train", arguments)
        run = Path(cfg.paths.run)
        for folder in ("episodes", "credit", "checkpoints", "policy", cfg.logger.csv.name):
            (run / folder).mkdir(parents=True, exist_ok=True)
        for file in ("curve.png", "config.yaml"):
            (run / file).touch()
        write(run / "curve.csv", [(0, 0, "val", family, 0, 0, 0, 2, 10) for family in ("pick", "all")])

    monkeypatch.setattr(demo, "train", train)
    demo.main([])
    shown = capsys.readouterr().out
    named = [line for line in shown.splitlines() if f" {tmp_path}/household_demo/" in line]
    assert len(named) == 8, shown
