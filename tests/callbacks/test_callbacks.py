"""What a run leaves behind: counts, curve, episodes, export, what it prints."""

import csv
import json
from types import SimpleNamespace

import pytest
from sharpo.callbacks.curve import LearningCurve, draw
from sharpo.callbacks.progress import Progress
from sharpo.callbacks.success_by_family import LogSuccessByFamily

from sharpo.episode import Episode
from sharpo.stats import wilson

FULL = ("callbacks=default", "callbacks.progress.refresh_rate=0", "++trainer.enable_progress_bar=true")


def test_a_run_leaves_curve_episodes_best_and_an_exported_policy(fit, tmp_path):
    trainer, module, _ = fit("algorithm=sharpo", *FULL)
    run = tmp_path / "run"
    with (run / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    families = ("pick", "look", "all")
    points = [(row["iteration"], row["panel"], row["family"]) for row in rows]
    assert points == [(str(i), panel, family) for i in range(3) for panel in ("val", "greedy") for family in families]
    counts = next(c for c in trainer.callbacks if isinstance(c, LogSuccessByFamily)).counts["val"]
    assert counts["all"] == (counts["pick"][0] + counts["look"][0], 8)
    last = next(row for row in rows[::-1] if (row["panel"], row["family"]) == ("val", "all"))
    assert (int(last["successes"]), int(last["episodes"])) == counts["all"]
    assert float(last["low"]) == pytest.approx(wilson(*counts["all"]).low)
    assert (run / "curve.png").read_bytes()[:4] == b"\x89PNG"
    texts = sorted((run / "episodes").glob("*.txt"))
    assert len(texts) == 3
    assert "> " in texts[0].read_text()
    line = (run / "episodes/step_000000.jsonl").read_text().splitlines()[0]
    assert Episode.from_json(line).policy_version == 0
    assert (run / "checkpoints/last.ckpt").is_file()
    assert (run / "checkpoints/best.ckpt").is_file()

    from sharpo.policy.causal_lm import CausalPolicy

    exported = dict(CausalPolicy(str(run / "policy")).named_weights())
    for name, tensor in module.policy.named_weights():
        assert (exported[name] == tensor).all(), name
    logged = trainer.callback_metrics
    shares = [float(logged[f"time/share_{stage}"]) for stage in ("collect", "score", "update")]
    assert sum(shares) == pytest.approx(1.0, abs=1e-5)
    assert logged["throughput/tokens_per_s"] > 0


def test_curve_points_survive_a_resume_and_are_not_doubled(tmp_path):
    counted = LogSuccessByFamily()
    counted.counts = {"val": {"all": (3, 4)}}
    trainer = SimpleNamespace(
        is_global_zero=True, sanity_checking=False, global_step=8, default_root_dir=tmp_path, callbacks=[counted]
    )  # fmt: skip
    whole, resumed = LearningCurve(), LearningCurve()
    for version in (0, 1):
        whole.on_validation_end(trainer, SimpleNamespace(policy_version=version))
    resumed.load_state_dict(whole.state_dict())
    counted.counts = {"val": {"all": (1, 4)}}
    resumed.on_validation_end(trainer, SimpleNamespace(policy_version=1))  # validated once more
    assert [(p["iteration"], p["successes"]) for p in resumed.points] == [(0, 3), (1, 1)]
    assert [(p["iteration"], p["successes"]) for p in whole.points] == [(0, 3), (1, 3)]
    with (tmp_path / "curve.csv").open() as file:
        assert [row["successes"] for row in csv.DictReader(file)] == ["3", "1"]


def test_a_curve_of_one_point_can_be_drawn(tmp_path):
    point = {"iteration": 0, "panel": "val", "family": "all", "success": 0.5, "low": 0.4, "high": 0.6, "episodes": 10}
    draw([point], tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 1000


def test_the_collect_bar_comes_and_goes_and_without_a_terminal_every_iteration_writes_a_line(fit, monkeypatch, capsys):
    seen = []
    original = Progress.on_collect_progress

    def spy(bar, trainer, done, total, label="Collect"):
        original(bar, trainer, done, total, label)
        seen.append((label, done, total, bar.progress.tasks[bar.progress.task_ids.index(bar._collect_bar)].visible))

    monkeypatch.setattr(Progress, "on_collect_progress", spy)
    fit("validate_first=false", "callbacks=default", "++trainer.enable_progress_bar=true")
    assert seen[0] == ("Collect", 1, 16, True)
    assert ("Collect", 16, 16, False) in seen
    assert any(label == "Validate greedy" for label, *_ in seen)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("iteration ")]
    assert [line.partition(":")[0] for line in lines] == ["iteration 1/2", "iteration 2/2"]
    assert "success " in lines[0]
    assert "loss " in lines[0]


def test_eval_prints_a_table_by_family_and_writes_json(small, tmp_path, capsys):
    from sharpo import cli

    chosen = [x for x in small if not x.startswith("callbacks=")]
    places = [f"paths.root={tmp_path}", f"paths.run={tmp_path}/e"]
    quiet = ["callbacks.progress.refresh_rate=0", "++trainer.enable_progress_bar=true"]
    cli.evaluate(cli.read("eval", [*chosen, *quiet, *places]))
    printed = capsys.readouterr().out
    assert "95 % interval" in printed
    assert "greedy" in printed
    result = json.loads((tmp_path / "e/eval.json").read_text())
    assert result["panels"]["val"]["all"]["episodes"] == 8
    score = result["scores"]["greedy"]
    assert 0 <= score["low"] <= score["mean"] <= score["high"] <= 1
    assert "(score)" in printed
