"""``debug=plan``: what a run would do, what is missing for it, and nothing written."""

import pytest

from sharpo import cli
from sharpo.errors import ConfigError


@pytest.fixture
def planned(tmp_path, capsys, monkeypatch):
    for name in ("ALFWORLD_DATA", "WEBSHOP_DATA"):
        monkeypatch.setenv(name, str(tmp_path / "no_data"))

    def run(*arguments):
        cli.train(cli.read("train", ["debug=plan", f"paths.root={tmp_path}/runs", *arguments]))
        assert not (tmp_path / "runs").exists()
        return capsys.readouterr().out

    return run


def test_it_prints_tasks_rows_memory_and_files(planned):
    out = planned("model=tiny")
    for words in ("16 of endlessly many", "rows", "tokens", "weights", "memory", "checkpoints/last.ckpt", "curve.png"):
        assert words in out, words
    assert "/credit" in out


def test_a_method_that_shows_nobody_a_hint_has_none(planned):
    assert "hint PeerHint" in planned("model=tiny")
    assert "method       Grpo, hint none" in planned("model=tiny", "algorithm=grpo")


def test_files_that_are_not_there_are_named(planned):
    out = planned("experiment=sharpo_searchqa")
    assert "missing      there is no file of questions data/searchqa/train.parquet" in out
    assert "missing      there is no file of questions data/searchqa/test.parquet" in out


def test_more_tasks_than_a_split_has_are_told(planned, capsys):
    refused = "data.sizes.groups=16, but the train split has 14 tasks; lower it"
    with pytest.raises(ConfigError, match=f"^{refused}$"):  # a script sees it by the exit code
        planned("env=searchqa", "prompt=searchqa_windowed", "panel.val.tasks=9999", "model.path=/nowhere")
    out = capsys.readouterr().out
    assert f"refused      {refused}" in out
    assert "refused      panel.val.tasks=9999: split 'val' has 14 tasks, lower it" in out


def test_a_model_made_from_words_that_are_not_there_yet(planned):
    out = planned("experiment=webshop_tiny", "model=tiny", "env.catalogue=nowhere")
    assert "missing      no WebShop catalogue in nowhere" in out
    assert "its size is not known without the words" in out


def test_files_stand_where_callbacks_and_loggers_write_them(planned, tmp_path):
    out = planned("experiment=household_warmstart", "logger=wandb")
    assert f"    {tmp_path}/runs/models/household_warmstart\n" in out
    assert "/policy" not in out
    assert out.rstrip().endswith("/wandb")
    out = planned("model=tiny", "callbacks.best=null", "callbacks.credit=null", "logger.csv=null")
    assert "checkpoints/last.ckpt" in out
    for name in ("best.ckpt", "/credit", "/metrics"):
        assert name not in out
