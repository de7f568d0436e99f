"""The road of ``experiment=webshop_tiny`` on a small catalogue: imitation of purchases, then SHARPO from there."""

import csv

import pytest
import small_run

SMALL = ("data.sizes.groups=4", "data.sizes.group_size=4", "trainer.max_epochs=1")


@pytest.fixture
def run(made_up_shop, tmp_path):
    return lambda name, *more: small_run.road(tmp_path, name, f"env.catalogue={made_up_shop}", *SMALL, *more)


def test_a_warm_start_and_one_iteration_of_sharpo(run):
    warm = run("webshop_warmstart", "schedule.warmup=1", *small_run.TINY_MODEL)
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
