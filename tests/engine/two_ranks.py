"""One rank of a two-process run: trainer on gloo, its own vLLM engine; started by test_vllm_distributed.py."""

from __future__ import annotations

import os
import sys


def main(folder: str) -> None:
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=os.environ["INIT"], rank=rank, world_size=2)
    from sharpo.engine.vllm import VllmEngine
    from sharpo.engine.weights import publish
    from sharpo.env import Observed
    from sharpo.episode import Task
    from sharpo.policy.causal_lm import CausalPolicy
    from sharpo.protocols import Request, TurnView

    view = TurnView(Task("t/0", "pick", "x", 0), 0, 0, Observed("x", (), None))
    policy = CausalPolicy(folder)
    engine = VllmEngine(folder, max_context=128, max_sequences=8)
    for version in range(2):
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(version)) * 0.2)
        publish(engine, version, policy.named_weights)
        for n in range(4 + 3 * rank):  # ranks do unequal work, as rollouts do
            engine.submit(Request(n, (5, 6, 7 + rank, 8 + n), 5 + rank, 1.0, n, (), view))
        done = []
        while len(done) < 4 + 3 * rank:
            done.extend(engine.poll())
        ids = torch.tensor([(5, 6, 7 + rank, 8 + c.id, *c.token_ids) for c in done])
        mask = torch.zeros_like(ids, dtype=torch.bool)
        mask[:, 4:] = True
        with torch.no_grad():
            logp = policy(ids, torch.ones_like(mask), mask, 1.0).logp[:, 4:]
        gap = (logp - torch.tensor([c.logp for c in done])).abs().max().item()
        assert gap < 1e-4, gap
        total = torch.tensor([1.0 + rank])
        dist.all_reduce(total)
        assert total.item() == 3.0
    engine.close()
    total = torch.tensor([1.0])
    dist.all_reduce(total)
    assert total.item() == 2.0
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
