"""Counts over counts by family, also across processes."""

from dataclasses import replace

import pytest
import torch
from torch import distributed, multiprocessing

from sharpo.episode import Episode, Outcome, Task, Turn
from sharpo.metrics import MeanOverTokens, SuccessByFamily


def episode(family: str, success: bool, actions=("go",)) -> Episode:
    turns = tuple(Turn((1,), (2,), (), "go", action, {}, "o", "n", 0.0, 0.0, "stop", 0) for action in actions)
    outcome = Outcome(success, float(success), terminated=success, truncated=not success)
    return Episode(Task(f"t/{family}", family, "do", 0), turns, outcome, 0)


def test_counts_by_family_and_over_all():
    metric = SuccessByFamily()
    metric.update([episode("pick", True), episode("pick", False, ("go", None)), episode("heat", True)])
    counts = metric.compute()
    assert counts["pick"] == (1, 2)
    assert counts["heat"] == (1, 1)
    assert counts["look"] == (0, 0)
    assert counts["all"] == (2, 3)
    assert metric.turn_counts() == (4, 1, 0)


def test_turns_without_a_valid_action_and_without_effect_are_counted():
    metric = SuccessByFamily(no_effect="n")
    played = episode("pick", True, ("go", None, "stay"))
    broken = replace(played.turns[2], invalid=True, next_observation="You go.")
    metric.update([replace(played, turns=(*played.turns[:2], broken))])
    assert metric.turn_counts() == (3, 2, 2)


def test_an_episode_that_never_began_counts_as_lost_and_adds_no_turn():
    metric = SuccessByFamily()
    never = Turn((), (), (), "", None, {}, "", "", 0.0, 0.0, "stop", 0, trainable=False)
    metric.update([replace(episode("pick", False), turns=(never,)), episode("pick", True)])
    assert metric.compute()["pick"] == (1, 2)
    assert metric.turn_counts() == (1, 0, 0)


def test_scores_are_counted_to_a_thousandth():
    metric = SuccessByFamily()
    half = Outcome(False, 2 / 3, terminated=True, truncated=False)
    metric.update([episode("pick", True), replace(episode("pick", False), outcome=half), episode("heat", False)])
    assert metric.score_values() == [0.0, 0.667, 1.0]


def test_another_family_is_refused_by_name():
    with pytest.raises(ValueError, match="'swim'"):
        SuccessByFamily().update([episode("swim", True)])


def test_masked_nan_does_not_leak_into_the_mean():
    metric = MeanOverTokens()
    metric.update(torch.tensor([[1.0, float("nan")], [3.0, 5.0]]), torch.tensor([[True, False], [True, False]]))
    assert metric.compute().item() == 2.0


def _count_on_rank(rank: int, folder: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    try:
        metric = SuccessByFamily()
        # rank 0: 1 of 1; rank 1: 0 of 3 -> 1/4, where a mean of means would say 1/2
        metric.update([episode("pick", True)] if rank == 0 else [episode("pick", False)] * 3)
        assert metric.compute()["pick"] == (1, 4)
        assert metric.turn_counts() == (4, 0, 0)
    finally:
        distributed.destroy_process_group()


def test_two_ranks_sum_counts_instead_of_averaging_means(tmp_path):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_count_on_rank, args=(rank, str(tmp_path))) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
