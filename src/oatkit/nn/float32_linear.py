"""A linear map in float32, whatever autocast and the weights are.

For what bfloat16 has too few digits for: positions that are read, and scores that are compared.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812


def linear_in_float32(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`x @ weight.T + bias`, as `torch.nn.functional.linear` has it, in float32 at least."""
    with torch.autocast(x.device.type, enabled=False):
        return F.linear(at_least_float32(x), at_least_float32(weight), at_least_float32(bias))


def at_least_float32(x: Tensor) -> Tensor:
    """The tensor itself, or as float32 where it has fewer digits."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
