"""Policies sharded as newer LeRobots do it, in a group of one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


@contextmanager
def sharded(policy: Any) -> Iterator[Any]:
    """The policy with every unit that it declares in shards of its own, and the rest in one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        units = set(policy._fsdp_wrap_modules)
        modules = [(type(module).__name__, module) for module in policy.modules()]
        assert units <= {name for name, _ in modules}
        for name, module in modules:
            if name in units:
                fully_shard(module, mesh=mesh)
        yield fully_shard(policy, mesh=mesh)
    finally:
        dist.destroy_process_group()
