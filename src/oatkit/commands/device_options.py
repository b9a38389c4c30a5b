"""The flags of where networks run, and in which numbers policies act: many commands share them."""

from __future__ import annotations

from typing import Annotated

import torch
from rich.console import Console
from tyro.conf import arg

from oatkit.commands.text_output import print_lines
from oatkit.nn.device import describe_device, resolve_device

DeviceFlag = Annotated[
    str,
    arg(
        metavar="auto|cpu|cuda|cuda:1|mps",
        help="Where networks run; auto takes a CUDA device where there is one, else the GPU of a "
        "Mac (mps), else the CPU.",
    ),
]
"""A field of this type adds `--device` to a command; its default is auto."""


def announce_device(console: Console, name: str) -> torch.device:
    """The device of a name, after a line that says which it is."""
    device = resolve_device(name)
    print_lines(console, f"on {describe_device(device)}")
    return device
