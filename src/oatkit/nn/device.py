"""Where networks compute: which device, what it is called, and when it has done its work."""

from __future__ import annotations

import os
import time

import torch
from torch import Tensor

Device = str | torch.device
"""A device or its name: `auto`, `cpu`, `cuda`, `cuda:1` or `mps`."""


WITHOUT_FLOAT64 = ("mps",)
"""Types of devices that cannot compute in float64."""


def resolve_device(device: Device = "auto") -> torch.device:
    """The device of a name; a ValueError names those that are there, if it is none of them.

    `auto` is CUDA where there is one, else MPS, else the CPU. A launcher of several processes gives
    each its own CUDA device: there `auto` and `cuda` mean that one, and a number is refused. One
    that is told to use the CPU (`accelerate launch --cpu`) leaves only that. What is a certain
    device already is taken as it is.
    """
    if isinstance(device, torch.device) and (device.type != "cuda" or device.index is not None):
        return device
    name, is_one_of_several = str(device), int(os.environ.get("WORLD_SIZE", "1")) > 1
    is_cpu_asked = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("true", "1", "yes")
    has_cuda = torch.cuda.is_available() and not is_cpu_asked
    count = torch.cuda.device_count() if has_cuda else 0
    has_mps = torch.backends.mps.is_available() and not (is_one_of_several or is_cpu_asked)
    there = [*(f"cuda:{number}" for number in range(count)), *(["mps"] if has_mps else []), "cpu"]
    if name == "auto":
        name = "cuda" if count else there[0]
    if name == "cuda" and count:
        rank = int(os.environ.get("LOCAL_RANK", "0"))
        return torch.device("cuda", rank % count if is_one_of_several else _current_cuda())
    if name not in there:
        why = ", because the launcher was told to use the CPU" if is_cpu_asked else ""
        raise ValueError(f"there is no device {name!r} here, only {', '.join(there)}{why}")
    if is_one_of_several and name != "cpu":
        raise ValueError(
            f"the launcher gives each process a device of its own: leave --device {name} out, or "
            "give cuda or cpu"
        )
    return torch.device(name)


def describe_device(device: torch.device) -> str:
    """The device as a user knows it."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return {"cpu": "the CPU", "mps": "the GPU of this Mac (mps)"}.get(device.type, str(device))


def synchronize(device: torch.device) -> None:
    """Wait until a device has done all that it was given.

    CUDA and MPS answer a call before the work is done; a CPU does it at once.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def read_clock(device: torch.device) -> float:
    """The time on the clock of `time.perf_counter` when a device has done all that it was given."""
    synchronize(device)
    return time.perf_counter()


def to_float64(values: Tensor) -> Tensor:
    """The same in float64, on the CPU where the device has no such numbers (MPS)."""
    return values.cpu().double() if values.device.type in WITHOUT_FLOAT64 else values.double()


def _current_cuda() -> int:
    return int(torch.cuda.current_device())
