"""What scoring logs: one number for all ranks."""

import math

from torch import distributed, multiprocessing

from sharpo.scoring import over_ranks


def test_one_process_keeps_its_own_numbers():
    assert over_ranks({"a_min": 1.0, "b": 2.0}, "cpu") == {"a_min": 1.0, "b": 2.0}


def _reduce_on_rank(rank: int, folder: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    try:
        nan = math.nan
        mine = [
            {"z_min": 1.0, "z_max": 1.0, "gate/max_abs": 0.5, "gap_mean": nan, "share": 0.0, "none": nan},
            {"z_min": 3.0, "z_max": 3.0, "gate/max_abs": 0.1, "gap_mean": 2.0, "share": 1.0, "none": nan},
        ][rank]
        found = over_ranks(mine, "cpu")
        assert math.isnan(found.pop("none"))
        assert found == {"z_min": 1.0, "z_max": 3.0, "gate/max_abs": 0.5, "gap_mean": 2.0, "share": 0.5}
    finally:
        distributed.destroy_process_group()


def test_a_rank_without_data_does_not_spoil_the_others(tmp_path):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_reduce_on_rank, args=(rank, str(tmp_path))) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
