"""Two processes compute what one does: log-probabilities, gradients, full weights, saved folders."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch

from sharpo.policy.causal_lm import CausalPolicy
from sharpo.policy.parallel import shard

SCRIPT = Path(__file__).with_name("two_ranks.py")


def run_ranks(tmp_path, *arguments: str) -> None:
    common = {**os.environ, "INIT": f"file://{tmp_path}/store", "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), *arguments],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [rank.communicate(timeout=200)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, output in zip(ranks, outputs, strict=True):
        assert rank.returncode == 0, output[-4000:]


@pytest.mark.integration
def test_two_ranks_equal_one(folders, tmp_path):
    run_ranks(tmp_path, str(tmp_path), *folders.values())
    spec = spec_from_file_location("two_ranks", SCRIPT)
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    for number, folder in enumerate(folders.values()):
        whole = CausalPolicy(folder)
        expected = [whole(*script.rows(rank), 0.7).logp for rank in range(2)]
        (sum((logp**2).sum() for logp in expected) / 2).backward()
        for kind in ("ddp", "fsdp2", "fsdp2_checkpointing"):
            equals_the_whole(whole, expected, tmp_path / str(number) / kind)


def equals_the_whole(whole, expected, out):
    weights = dict(whole.named_weights())
    for rank in range(2):
        found = torch.load(out / f"{rank}.pt")
        assert (found["logp"] - expected[rank]).abs().max() < 1e-5
        for name, parameter in whole.lm.named_parameters():
            scale = max(parameter.grad.abs().max(), 1)
            assert (found["gradients"][name] - parameter.grad).abs().max() < 1e-5 * scale, (out, name)
        assert found["weights"].keys() == weights.keys()
        assert all(torch.equal(found["weights"][name], tensor) for name, tensor in weights.items())
    saved = dict(CausalPolicy(str(out / "saved")).named_weights())
    assert all(torch.equal(saved[name], tensor) for name, tensor in weights.items())


def test_without_a_mesh_the_policy_stays_whole(policy):
    assert shard(policy, None) is policy
