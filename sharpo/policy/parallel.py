"""Sharding with torch's fully_shard (FSDP2): every decoder layer is a unit, the policy is the root."""

from __future__ import annotations

from typing import Literal

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from sharpo.errors import ConfigError
from sharpo.policy.causal_lm import CausalPolicy

DATA, TENSOR = "data_parallel", "tensor_parallel"


def shard(
    policy: CausalPolicy,
    mesh: DeviceMesh | None,
    *,
    compute: Literal["parameters", "bfloat16"] = "parameters",
    reshard_after_forward: bool = True,
) -> CausalPolicy:
    """Shard a policy over the data-parallel dimension of a mesh, in place; without a mesh it stays whole.

    Call the policy through itself, ``policy(...)``: the hooks that gather the weights sit there.

    Args:
        policy: the policy, whole.
        mesh: one dimension, or Lightning's two (``data_parallel``, ``tensor_parallel`` of size 1); None = no sharding.
        compute: ``bfloat16`` gathers and multiplies in bfloat16 while the shards, the gradients and the optimizer
            keep the parameters' own dtype.
        reshard_after_forward: free a layer's gathered weights after its forward pass.

    Raises:
        ConfigError: the mesh asks for tensor parallelism.
    """
    if mesh is None:
        return policy
    names = mesh.mesh_dim_names or ()
    if TENSOR in names and mesh[TENSOR].size() > 1:
        raise ConfigError(
            f"strategy.tensor_parallel_size={mesh[TENSOR].size()}: only data parallelism is supported; set "
            "strategy.tensor_parallel_size=1 and strategy.data_parallel_size to the number of processes"
        )
    flat = mesh[DATA] if DATA in names else mesh
    mixed = (
        MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        if compute == "bfloat16"
        else MixedPrecisionPolicy()
    )
    for layer in policy.lm.model.layers:
        fully_shard(layer, mesh=flat, mp_policy=mixed, reshard_after_forward=reshard_after_forward)
    fully_shard(policy, mesh=flat, mp_policy=mixed)
    return policy
