"""Shares of an iteration's time."""

from types import SimpleNamespace

import pytest
from sharpo.callbacks.throughput import Throughput


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


def test_the_baseline_validation_is_no_part_of_the_first_collection():
    ticks, logged = iter([0.0, 4.0, 30.0, 31.0, 36.0, 36.0]), {}
    buffer = SimpleNamespace(stats={})
    trainer = SimpleNamespace(train_dataloader=SimpleNamespace(dataset=buffer), world_size=1)
    module = SimpleNamespace(log_dict=lambda values, **_: logged.update(values))
    callback = Throughput(clock=lambda: next(ticks))
    callback.on_fit_start(trainer, module)  # 0
    callback.on_train_start(trainer, module)  # 4: collected for 4 s
    callback.on_train_epoch_start(trainer, module)  # 30: validated for 26 s
    callback.on_train_batch_start(trainer, module, None, 0)  # 31: scored for 1 s
    callback.on_train_batch_end(trainer, module, None, None, 0)  # 36: updated for 5 s
    callback.on_train_epoch_end(trainer, module)
    assert logged["time/iteration_s"] == pytest.approx(10.0)
    assert logged["time/share_collect"] == pytest.approx(0.4)
