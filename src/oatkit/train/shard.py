"""Weights sharded over processes (FSDP2): each holds a part and gathers a layer while it runs.

`accelerate launch` with `configs/accelerate/fsdp.yaml` asks for it. `torch.distributed.tensor` and
`fsdp` are imported where they are needed, because that takes a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from oatkit.errors import TrainingError


def is_sharding_asked() -> bool:
    """Whether the launcher asks for sharded weights."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


def shard(model: nn.Module, blocks: Iterable[nn.Module], *, is_bfloat16: bool) -> None:
    """Shard all parameters; only the forward pass of `model` may be called from then on.

    Args:
        model: The module that is run and trained.
        blocks: Modules in it that are gathered one at a time.
        is_bfloat16: Whether weights are gathered as bfloat16: those that are trained are float32,
            the others may be bfloat16 already.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    others = {str(p.dtype) for p in model.parameters() if not _is_shardable(p, is_bfloat16)}
    if others:
        raise TrainingError(
            f"sharded weights are {', '.join(others)}, expected float32, or bfloat16 if they are "
            "frozen and --precision is bfloat16: use --dtype float32, and --precision bfloat16 to "
            "compute in it"
        )
    policy = MixedPrecisionPolicy()
    if is_bfloat16:
        policy = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
        )
    for block in blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)


def _is_shardable(parameter: nn.Parameter, is_bfloat16: bool) -> bool:
    is_frozen_half = parameter.dtype == torch.bfloat16 and not parameter.requires_grad
    return parameter.dtype == torch.float32 or (is_bfloat16 and is_frozen_half)


def gather_in(model: nn.Module, method: str) -> None:
    """Let a method of a sharded model gather weights as its forward pass does."""
    from torch.distributed.fsdp import register_fsdp_forward_method

    register_fsdp_forward_method(model, method)


def reshard(model: Any) -> None:
    """Drop what the last pass gathered and no backward pass will drop."""
    model.reshard()


def average_gradients(model: Any, is_now: bool) -> None:
    """Say whether the next backward pass of a sharded model averages over processes."""
    model.set_requires_gradient_sync(is_now)


def is_sharded(tensor: Tensor) -> bool:
    """Whether this process holds only a part of the tensor."""
    return hasattr(tensor, "full_tensor")


def full_tensor(tensor: Tensor) -> Tensor:
    """All of a tensor; all processes must ask for a sharded one together."""
    if not is_sharded(tensor):
        return tensor
    gathered: Tensor = tensor.full_tensor()  # type: ignore[attr-defined]
    return gathered


def shard_like(tensor: Tensor, like: Any) -> Tensor:
    """A tensor that every process has in full, moved or sharded as another one is."""
    if not is_sharded(like):
        return tensor.to(like.device)
    from torch.distributed.tensor import distribute_tensor

    mesh = like.device_mesh
    return distribute_tensor(tensor.to(mesh.device_type), mesh, like.placements, src_data_rank=None)
