"""The number format that a training computes in: as asked, the launcher's, or what suits."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from oatkit.errors import TrainingError
from oatkit.train.train_config import Precision, TrainConfig

LAUNCHED: dict[str, Precision] = {"bf16": "bfloat16"}
"""What `accelerate launch` calls the formats that a training can compute in."""


def with_precision(
    config: TrainConfig, module: nn.Module | None, device: torch.device
) -> TrainConfig:
    """A config that names the format to compute in; see `resolve_precision`."""
    return replace(config, precision=resolve_precision(config.precision, module, device))


def resolve_precision(
    asked: Precision | None, module: nn.Module | None, device: torch.device
) -> Precision:
    """The format to compute in; weights are float32 in any case.

    If none is asked for it is the launcher's, else bfloat16 where a CUDA device has it and the
    module says `prefers_bfloat16`, else float32. `accelerate launch` says "no" also where nobody
    chose, so that this counts as no choice.

    Args:
        asked: Format that the config names.
        module: What is trained; None for what does not prefer bfloat16.
        device: Where it computes.
    """
    launched = os.environ.get("ACCELERATE_MIXED_PRECISION", "no").lower()
    if launched != "no" and launched not in LAUNCHED:
        raise TrainingError(
            f"the launcher asks for {launched}, which training does not compute in: launch with "
            "--mixed_precision bf16 or no"
        )
    named = LAUNCHED.get(launched)
    if asked is not None:
        if named is not None and named != asked and os.environ.get("RANK", "0") == "0":
            warnings.warn(
                f"computing in {asked}, as asked, not in the launcher's {named}", stacklevel=2
            )
        return asked
    if named is not None:
        return named
    if device.type != "cuda" or not prefers_bfloat16(module):
        return "float32"
    return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"


def prefers_bfloat16(module: nn.Module | None) -> bool:
    """Whether a module is made to compute with weights of bfloat16."""
    return bool(getattr(module, "prefers_bfloat16", False))


@contextmanager
def tensor_cores(device: torch.device) -> Iterator[None]:
    """Let a CUDA device multiply matrices of float32 in TF32 meanwhile, which is many times faster.

    What is computed afterwards, as calibration and measuring, has all digits again.
    """
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
