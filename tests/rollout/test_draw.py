"""The benchmark family's draw of validation tasks, reproduced: its counts, its repeats, its dependence on the order."""

import random

import numpy as np
import pytest
from toy_env import ToyEnv

from sharpo.errors import ConfigError, DataError
from sharpo.rollout.draw import WorkerDraw, draws


@pytest.mark.parametrize(("games", "distinct"), [(140, (91, 84)), (134, (74, 77))])
def test_the_measured_counts_of_distinct_games_come_out(games, distinct):
    assert tuple(len(set(draws(games, 128, 1000, validation))) for validation in (0, 1)) == distinct


def test_a_worker_walks_shuffled_passes_over_its_list():
    """A plain loop: TextWorld shuffles the list, walks it, shuffles what it walked, and walks again."""
    for worker in (0, 7):
        generator, order, walked = np.random.RandomState(1000 + worker), list(range(5)), []
        for _ in range(3):
            generator.shuffle(order)
            walked += order
        assert [draws(5, 8, 1000, validation)[worker] for validation in range(15)] == walked


def test_repeats_stay_on_one_rank_and_nothing_is_lost():
    env = ToyEnv()
    panel = WorkerDraw(split="val", workers=20)
    whole = [task.id for task in panel.select(env)]
    assert len(whole) == 20
    assert len(set(whole)) < 12
    shares = [[task.id for task in panel.select(env, rank, 3)] for rank in range(3)]
    assert sorted(name for share in shares for name in share) == sorted(whole)
    assert not set(shares[0]) & set(shares[1])
    assert whole != [task.id for task in WorkerDraw(split="val", workers=20, validation=1).select(env)]


def test_another_order_of_the_list_gives_other_games_in_the_same_number(tmp_path):
    env, path = ToyEnv(), tmp_path / "walk.txt"
    names = [env.task("val", index).id for index in range(12)]
    order = random.Random(0).sample(names, 12)
    path.write_text("\n".join(order))
    listed = [t.id for t in WorkerDraw(split="val", workers=6).select(env)]
    walked = [t.id for t in WorkerDraw(split="val", workers=6, order=str(path)).select(env)]
    assert walked == [order[names.index(name)] for name in listed]
    path.write_text("\n".join(order[:-1]))
    with pytest.raises(DataError, match=r"each once: it lists 11 of 12"):
        WorkerDraw(split="val", order=str(path)).select(env)
    path.write_text("\n".join([*order[:-1], "toy/val/99"]))
    with pytest.raises(DataError, match=r"'toy/val/99' is none of them"):
        WorkerDraw(split="val", order=str(path)).select(env)
    with pytest.raises(DataError, match=r"cannot be read"):
        WorkerDraw(split="val", order=str(tmp_path / "none.txt")).select(env)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ConfigError, match="has no such split"):
        WorkerDraw().select(ToyEnv())
    with pytest.raises(ConfigError, match="is endless"):
        WorkerDraw(split="train").select(ToyEnv())
    with pytest.raises(ConfigError, match=r"panel.workers=0: must be at least 1"):
        WorkerDraw(workers=0)
    with pytest.raises(ConfigError, match=r"panel.temperature=-0.1: must be at least 0"):
        WorkerDraw(temperature=-0.1)
    with pytest.raises(ConfigError, match=r"panel.seed=4294967290: must be below"):
        WorkerDraw(seed=2**32 - 6).check(ToyEnv())
