"""A tiny model folder with weights large enough that its distributions are far from uniform."""

from __future__ import annotations

import pytest
import torch

from sharpo.policy.causal_lm import CausalPolicy
from sharpo.policy.tiny import TinyModel

LEXICON = [
    "go to", "take", "from", "you arrive at", "you see", "nothing", ".", ",", "a", "<action>", "</action>",
    *[f"{name} {n}" for name in ("cabinet", "desk", "mug", "apple") for n in range(1, 13)],
]  # fmt: skip


@pytest.fixture(scope="session")
def lexicon() -> list[str]:
    return LEXICON


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> dict[bool, str]:
    """Folder of a model whose head is tied to its embeddings, and of one whose is not."""
    return {tied: _grown(tied, tmp_path_factory) for tied in (True, False)}


@pytest.fixture(scope="session", params=[True, False], ids=["tied", "untied"])
def folder(request, folders) -> str:
    return folders[request.param]


def _grown(tied, tmp_path_factory) -> str:
    blank = TinyModel(str(tmp_path_factory.mktemp("blank")), tied=tied).prepare(lambda: LEXICON)
    policy = CausalPolicy(blank)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.ndim == 2:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.15)
    grown = tmp_path_factory.mktemp("grown")
    policy.save(grown)
    return str(grown)


@pytest.fixture(scope="session")
def policy(folder) -> CausalPolicy:
    return CausalPolicy(folder)
