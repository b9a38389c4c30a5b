"""The flags of where networks run, and in which numbers policies act: many commands share them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from tyro.conf import arg

from oatkit.commands.text_output import print_lines
from oatkit.types import Dtype

if TYPE_CHECKING:
    import torch

DeviceFlag = Annotated[
    str,
    arg(
        metavar="auto|cpu|cuda|cuda:1|mps",
        help="Where networks run; auto takes a CUDA device where there is one, else the GPU of a "
        "Mac (mps), else the CPU.",
    ),
]
"""A field of this type adds `--device` to a command; its default is auto."""

DtypeFlag = Annotated[
    Dtype | None,
    arg(
        help="Type of the policy's weights, and what it computes in; as trained by default. "
        "bfloat16 halves memory and time of a large policy on a GPU; states, logits, the sums of "
        "Euler steps and the decoder of the tokens stay float32.",
    ),
]
"""A field of this type adds `--dtype` to a command that runs a trained policy."""


def announce_device(console: Console, name: str, dtype: Dtype | None = None) -> torch.device:
    """The device of a name, after a line that says which it is, and the type that is asked for."""
    from oatkit.nn.device import describe_device, resolve_device  # not where torch is missing

    device = resolve_device(name)
    if os.environ.get("RANK", "0") == "0":  # once, not for each process of a launcher
        print_lines(console, f"on {describe_device(device)}{f' in {dtype}' if dtype else ''}")
    return device
