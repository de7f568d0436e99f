"""One rank of a sharded or replicated policy; started by test_parallel.py, which compares with the whole policy."""

from __future__ import annotations

import os
import sys


def rows(rank: int):
    """The batch of a rank: two rows, the second padded on the left."""
    import torch

    ids = torch.randint(5, 60, (2, 9), generator=torch.Generator().manual_seed(rank))
    attention = torch.ones(2, 9, dtype=torch.bool)
    attention[1, : 3 + rank] = False
    mask = torch.zeros_like(attention)
    mask[0, 4:], mask[1, 7:] = True, True
    return ids, attention, mask


def main(out: str, *folders: str) -> None:
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=os.environ["INIT"], rank=rank, world_size=2)
    for number, folder in enumerate(folders):
        for kind in ("ddp", "fsdp2", "fsdp2_checkpointing"):
            run(kind, folder, os.path.join(out, str(number), kind), rank)
    dist.barrier()
    dist.destroy_process_group()


def run(kind: str, folder: str, out: str, rank: int) -> None:
    import torch
    from torch.distributed.device_mesh import init_device_mesh

    from sharpo.policy.causal_lm import CausalPolicy
    from sharpo.policy.parallel import shard

    policy = CausalPolicy(folder, gradient_checkpointing=kind == "fsdp2_checkpointing")
    if kind == "ddp":
        call = torch.nn.parallel.DistributedDataParallel(policy)
    else:
        mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("data_parallel", "tensor_parallel"))
        call = shard(policy, mesh)
    logp = call(*rows(rank), 0.7).logp
    with torch.no_grad():
        again = policy(*rows(rank), 0.7, with_entropy=True)
    assert (again.logp - logp).abs().max() < 1e-6
    (logp**2).sum().backward()
    gradients = {}
    for name, parameter in policy.lm.named_parameters():
        gradient = parameter.grad
        gradients[name] = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient.clone()
    weights = dict(policy.named_weights())
    policy.save(os.path.join(out, "saved"))
    ids, attention, mask = rows(rank)
    mask = mask if rank == 0 else torch.zeros_like(mask)
    call(ids, attention, mask, 1.0).logp.sum().backward()  # a rank without a scored token does not hang the other
    os.makedirs(out, exist_ok=True)
    torch.save({"logp": logp.detach(), "gradients": gradients, "weights": weights}, os.path.join(out, f"{rank}.pt"))


if __name__ == "__main__":
    main(*sys.argv[1:])
