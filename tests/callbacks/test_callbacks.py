"""What a run leaves behind: counts, curve, episodes, export, timings, W&B offline."""

import csv
import json
from types import SimpleNamespace

import pytest
from sharpo.callbacks.curve import LearningCurve, draw
from sharpo.callbacks.progress import Progress
from sharpo.callbacks.success_by_family import LogSuccessByFamily
from sharpo.callbacks.throughput import Throughput

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


def test_curve_points_survive_a_resume_and_are_not_doubled():
    curve = LearningCurve("unused")
    curve.load_state_dict({"points": [{"iteration": 0, "panel": "val"}]})
    assert curve.state_dict() == {"points": [{"iteration": 0, "panel": "val"}]}


def test_a_curve_of_one_point_can_be_drawn(tmp_path):
    point = {"iteration": 0, "panel": "val", "family": "all", "success": 0.5, "low": 0.4, "high": 0.6, "episodes": 10}
    draw([point], tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 1000


def test_throughput_shares_come_from_the_clock(assert_golden):
    ticks = iter([0.0, 4.0, 5.0, 6.0, 10.0, 12.0])
    stats = {"engine_s": 3.0, "env_s": 0.5, "generated_tokens": 100.0}
    trainer = SimpleNamespace(world_size=2, train_dataloader=SimpleNamespace(dataset=SimpleNamespace(stats=stats)))
    logged = {}
    module = SimpleNamespace(log_dict=lambda values, **_: logged.update(values))
    callback = Throughput(clock=lambda: next(ticks))
    callback.on_fit_start(trainer, module)  # 0
    callback.on_train_epoch_start(trainer, module)  # 4: collected for 4 s
    callback.on_train_batch_start(trainer, module, None, 0)  # 5: scored for 1 s
    callback.on_train_batch_end(trainer, module, None, None, 0)  # 6
    callback.on_train_batch_end(trainer, module, None, None, 1)  # 10: updated for 5 s
    callback.on_train_epoch_end(trainer, module)  # 12: validated for 2 s
    # total 4 + 1 + 5 = 10 s; 100 tokens a rank on 2 ranks = 20 tokens/s
    names = ["collect", "score", "update", "engine", "env"]
    assert_golden([logged[f"time/share_{n}"] for n in names], [0.4, 0.1, 0.5, 0.3, 0.05])
    assert_golden([logged["throughput/tokens_per_s"], logged["time/validation_s"]], [20.0, 2.0])


def test_the_collect_bar_appears_before_training_and_hides_when_done(fit, monkeypatch):
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


@pytest.mark.timeout(120)
def test_wandb_offline_keeps_the_run_id_in_the_checkpoint(fit, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="W&B is an optional part")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    import torch
    import wandb

    fit("logger=wandb", "trainer.max_epochs=1", *FULL)
    run_id = wandb.run.id
    wandb.finish()
    state = torch.load(tmp_path / "run/checkpoints/last.ckpt", weights_only=True)["callbacks"]["ResumeState"]
    assert state["wandb_id"] == run_id
    assert list((tmp_path / "run/wandb").glob("offline-run-*"))
    assert (tmp_path / "run/metrics/version_0/metrics.csv").is_file()


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


def test_without_a_terminal_every_iteration_writes_a_line(fit, capsys):
    fit("validate_first=false", "callbacks=default", "++trainer.enable_progress_bar=true")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("iteration ")]
    assert [line.partition(":")[0] for line in lines] == ["iteration 1/2", "iteration 2/2"]
    assert "success " in lines[0]
    assert "loss " in lines[0]
