"""Finds on a CPU what may not be in a CUDA graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

UNSAFE = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "lift_fresh")
"""Operators that read numbers from tensors into Python, give a shape that depends on them, or make
a tensor of Python's numbers, which a GPU would copy from memory that it cannot replay from."""


class GraphSafe(TorchDispatchMode):
    """Refuses operators that cannot be captured; not in inference mode, which hides some."""

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = operator.overloadpacket.__name__
        has_bool_index = name == "index" and any(
            isinstance(index, Tensor) and index.dtype == torch.bool for index in args[1]
        )
        assert name not in UNSAFE, f"{name} cannot be captured"
        assert not has_bool_index, "an index of booleans cannot be captured"
        return operator(*args, **(kwargs or {}))
