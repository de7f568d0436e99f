"""The road of ``experiment=alfworld_tiny`` on real games: imitation of the expert, then SHARPO from there."""

import csv

import pytest
import small_run
from safetensors.torch import load_file

SMALL = (
    "data.sizes.groups=1", "data.sizes.group_size=8", "trainer.accumulate_grad_batches=1", "env.train_games=1",
    "env.max_turns=6", "env.strict=true", "env.invalid_penalty=0.1",
)  # fmt: skip


@pytest.fixture
def run(alfworld_games, tmp_path):
    return lambda name, *more: small_run.road(tmp_path, name, f"env.data={alfworld_games}", *SMALL, *more)


def columns(folder, *names):
    """The iterations' rows of a run's metrics, as numbers."""
    with next(folder.glob("**/metrics.csv")).open() as file:
        rows = list(csv.DictReader(file))
    return [[float(row[name]) for row in rows if row[name]] for name in names]


@pytest.mark.integration
def test_a_warm_start_and_one_iteration_of_sharpo_that_moves_the_policy(run):
    warm = run("alfworld_warmstart", "schedule.warmup=1", "trainer.max_epochs=12", *small_run.TINY_MODEL)
    (nll,) = columns(warm, "train/nll")
    assert len(nll) == 12
    assert nll[-1] < nll[0] / 2
    learned = run("alfworld_tiny", "engine=hf", "panel=fast", "trainer.max_epochs=1")
    validated, (invalid,), (norm,), (gate,) = columns(
        learned, "val/score/all", "rollout/invalid_share", "train/gradient_norm", "gate/max_abs"
    )
    assert len(validated) == 2
    assert 0 < invalid < 1  # some commands are the game's: returns differ, so there is something to learn
    assert norm > 0
    assert gate < 1e-3
    before, after = (
        load_file(folder / "model.safetensors") for folder in (warm.parent / "models" / warm.name, learned / "policy")
    )
    assert before.keys() == after.keys()
    assert any((before[name] != after[name]).any() for name in before)
