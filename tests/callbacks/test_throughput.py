"""Shares of an iteration's time."""

from types import SimpleNamespace

import pytest
from sharpo.callbacks.throughput import Throughput


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
