"""What Weights & Biases gets, read back from the files of an offline run: config, metrics, episodes, and no secret."""

import json
import time
from collections import defaultdict
from pathlib import Path

import pytest
import torch

from sharpo import cli

wandb = pytest.importorskip("wandb", reason="W&B is an optional part")
pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore:There is a wandb run already in progress:UserWarning"),
]
SECRETS = {"HF_TOKEN": "planted-hf-token", "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567"}


def records(folder: Path):
    """Every record of an offline run: a 7-byte head, then blocks of 32 KiB with pieces (checksum, length, kind).

    A last piece that is still being written ends it.
    """
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("run-*.wandb")
    data, at, piece = path.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if at + 7 + length > len(data):
            return
        piece += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or its last piece
            record = wandb_internal_pb2.Record()
            record.ParseFromString(piece)
            piece = b""
            yield record


def read_back(folder: Path):
    """(run id, config, {metric: [values]}) of an offline run."""
    config, history, identity = {}, defaultdict(list), ""
    until = time.monotonic() + 60
    while not any(record.HasField("exit") for record in records(folder)):  # another process writes the file
        assert time.monotonic() < until, "the offline run never ended"
        time.sleep(0.2)
    for record in records(folder):
        if record.HasField("run"):
            identity = record.run.run_id
            config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        for item in record.config.update:
            config[item.key or item.nested_key[0]] = json.loads(item.value_json)
        for item in record.history.item:
            history[item.key or ".".join(item.nested_key)].append(json.loads(item.value_json))
    return identity, config, history


@pytest.fixture
def run(small, tmp_path, monkeypatch):
    """Run train or eval offline with planted secrets: ``run(cli.train, "train", ...)`` -> folders of W&B runs."""
    for name, value in {**SECRETS, "WANDB_MODE": "offline", "WANDB_SILENT": "true"}.items():
        monkeypatch.setenv(name, value)

    def start(what, name, *more):
        chosen = [x for x in small if not x.startswith("callbacks=")]
        settings = [
            *chosen, f"callbacks={'default' if what is cli.train else 'eval'}", "callbacks.progress.refresh_rate=0",
            "++trainer.enable_progress_bar=true", "logger=wandb", f"paths.root={tmp_path}",
            f"paths.run={tmp_path}/{name}", f"callbacks.episodes.folder={tmp_path}/${{oc.env:HF_TOKEN}}", *more,
        ]  # fmt: skip
        what(cli.read("train" if what is cli.train else "eval", settings))
        wandb.finish()
        return sorted((tmp_path / name / "wandb").glob("offline-run-*"), key=lambda path: path.stat().st_mtime)

    return start


def test_an_offline_run_holds_config_metrics_families_and_episodes_and_a_resumed_one_has_its_id(run, tmp_path):
    (folder,) = run(cli.train, "run", "algorithm=sharpo_l005")
    identity, config, history = read_back(folder)

    assert config["seed"] == 0
    assert config["data"]["sizes"]["group_size"] == 4
    assert config["algorithm"]["_target_"] == "sharpo.algorithms.sharpo.Sharpo"
    assert config["method"]["name"] == "Sharpo"
    assert config["method"]["lam"] == 0.05
    assert config["method"]["policy_loss"]["clip_low"] == 0.2  # a default of Python's, in no yaml
    assert config["callbacks"]["episodes"]["folder"] == f"{tmp_path}/<HF_TOKEN>"

    for family in ("pick", "look", "all"):
        assert len(history[f"val/success/{family}"]) == 3  # before, and after each of two iterations
        assert len(history[f"val_greedy/success/{family}"]) == 3
    assert all(0 <= value <= 1 for value in history["val/success/all"])
    assert len(history["train/loss"]) == len(history["rollout/success"]) == 2

    tables = [json.loads((folder / "files" / path).read_text()) for path in history["val/episodes.path"]]
    assert len(tables) == 3
    assert {table["data"][0][0] for table in tables} == {0, 1, 2}
    for table in tables:
        assert table["columns"] == ["iteration", "task", "family", "success", "score", "turns", "ended", "transcript"]
        assert len(table["data"]) == 6
        assert all(row[2] in ("pick", "look") and row[1] in row[7] for row in table["data"])

    assert len(list(folder.rglob("media/images/credit/report_*.png"))) == 2  # of each iteration that was validated
    assert (tmp_path / "run/metrics/version_0/metrics.csv").is_file()
    last = torch.load(tmp_path / "run/checkpoints/last.ckpt", weights_only=True)
    assert last["callbacks"]["ResumeState"]["wandb_id"] == identity

    again = run(cli.train, "run", "algorithm=sharpo_l005", "ckpt=auto", "trainer.max_epochs=3")
    assert len(again) == 2
    same, _, added = read_back(again[-1])
    assert same == identity
    assert len(added["val/success/all"]) == len(added["train/loss"]) == 1
    assert_no_secret(tmp_path)
    assert_read_as_far_as_it_is_whole(folder)


def test_eval_logs_its_config_families_and_episodes_in_a_run_of_its_own(run, tmp_path):
    (trained,) = run(cli.train, "run", "trainer.max_epochs=1")
    (folder,) = run(cli.evaluate, "eval", f"ckpt={tmp_path}/run/checkpoints/last.ckpt")
    identity, config, history = read_back(folder)
    assert identity != read_back(trained)[0]
    assert (config["name"], config["panel"]["val"]["tasks"]) == ("test", 8)
    result = json.loads((tmp_path / "eval/eval.json").read_text())["panels"]["val"]
    for family in ("pick", "look", "all"):
        assert history[f"val/success/{family}"] == [pytest.approx(result[family]["rate"])]
    assert len(list(folder.glob("files/media/table/val/*.table.json"))) == 1
    assert_no_secret(tmp_path)


def assert_read_as_far_as_it_is_whole(folder: Path):
    """Cut the file of a run, as one that is still being written is: a longer piece never holds fewer records."""
    (path,) = folder.glob("run-*.wandb")
    whole, data = len(list(records(folder))), path.read_bytes()
    counts = []
    for size in [*range(7, len(data), max(97, len(data) // 50)), len(data) - 1]:
        path.write_bytes(data[:size])
        counts.append(len(list(records(folder))))
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] < whole


def assert_no_secret(root: Path):
    for path in root.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not [name for name, value in SECRETS.items() if value.encode() in data], path
