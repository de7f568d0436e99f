"""The road of ``experiment=webshop_tiny`` on a small catalogue: imitation of purchases, then SHARPO from there."""

import csv

import pytest

from sharpo import cli

SMALL = (
    "data.pool._target_=sharpo.rollout.env_pool.InlineEnvPool", "data.sizes.groups=4", "data.sizes.group_size=4",
    "data.sizes.passes=1", "trainer.accelerator=cpu", "trainer.max_epochs=1", "callbacks.progress.refresh_rate=0",
)  # fmt: skip
MODEL = ("model.path.width=32", "model.path.heads=1", "model.path.layers=1", "model.path.feed_forward=32")


@pytest.fixture
def run(made_up_shop, tmp_path):
    def start(experiment, *more):
        settings = (f"experiment={experiment}", f"env.catalogue={made_up_shop}", f"paths.root={tmp_path}")
        cli.train(cli.read("train", [*settings, f"paths.run={tmp_path / experiment}", *SMALL, *more]))
        return tmp_path / experiment

    return start


def test_a_warm_start_and_one_iteration_of_sharpo(run):
    warm = run("webshop_warmstart", "schedule.warmup=1", *MODEL)
    assert (warm.parent / "models" / "webshop_warmstart" / "config.json").is_file()
    learned = run("webshop_tiny", "engine=hf", "panel=fast", "trainer.check_val_every_n_epoch=1")
    with (learned / "curve.csv").open() as file:
        seen = [(row["iteration"], row["episodes"]) for row in csv.DictReader(file) if row["family"] == "all"]
    assert seen == [("0", "4"), ("1", "4")]
    with next(learned.glob("**/metrics.csv")).open() as file:
        rows = list(csv.DictReader(file))
    scores = [float(row["val/score/all"]) for row in rows if row["val/score/all"]]
    assert len(scores) == 2
    assert all(0 <= score <= 1 for score in scores)
    assert [row["train/loss"] for row in rows if row["train/loss"]]
