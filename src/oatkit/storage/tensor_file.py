"""Tensors in one safetensors file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from torch import Tensor


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a file that those can read who can read other new files in its folder.

    safetensors 0.8 makes its files the owner's alone, which another user of a shared disk, or of
    a container that serves the artifact, could not open.
    """
    path.touch()
    mode = path.stat().st_mode
    safetensors.torch.save_file(dict(tensors), path)
    path.chmod(mode)
