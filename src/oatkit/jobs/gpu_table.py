"""The one list of GPUs that a training can be planned for: numbers of their data sheets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oatkit.errors import unknown_name
from oatkit.train.train_config import Precision


@dataclass(frozen=True)
class Gpu:
    """A GPU, as far as it decides what fits and how long a step takes.

    Attributes:
        name: Name on the command line.
        memory: Memory in bytes.
        bfloat16: FLOP/s of dense bfloat16 matrices with sums in float32.
    """

    name: str
    memory: float
    bfloat16: float

    def flops(self, precision: Precision) -> float:
        """FLOP/s in a precision; float32 is multiplied in TF32, which is half as fast on all."""
        return self.bfloat16 if precision == "bfloat16" else self.bfloat16 / 2


GPUS = {
    name: Gpu(name, gigabytes * 1e9, teraflops * 1e12)
    for name, gigabytes, teraflops in (
        ("l4", 24, 121),
        ("a10", 24, 125),
        ("rtx3090", 24, 71),
        ("rtx4090", 24, 165),
        ("rtx5090", 32, 209),
        ("a100-40", 40, 312),
        ("a6000", 48, 155),
        ("l40s", 48, 362),
        ("a100-80", 80, 312),
        ("h100-80", 80, 989),
        ("h200", 141, 989),
        ("b200", 180, 2250),
    )
}
"""GPUs by name, the smallest memory first."""
OWN = re.compile(r"(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)")


def gpu_named(name: str) -> Gpu:
    """The GPU of a name, or one given as gigabytes and bfloat16 TFLOP/s, such as `96:400`."""
    if name in GPUS:
        return GPUS[name]
    own = OWN.fullmatch(name)
    if own is None or not all(map(float, own.groups())):
        raise ValueError(
            f"{unknown_name('GPU', name, GPUS)}; any other is given as gigabytes and bfloat16 "
            "TFLOP/s, such as 96:400"
        )
    return Gpu(name, float(own[1]) * 1e9, float(own[2]) * 1e12)
