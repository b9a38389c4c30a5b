"""GPUs by name, and others by their numbers."""

from __future__ import annotations

import pytest

from oatkit.jobs.gpu_table import GPUS, gpu_named


def test_the_table_is_sorted_and_plausible() -> None:
    memories = [gpu.memory for gpu in GPUS.values()]
    assert memories == sorted(memories)
    assert {"a100-40", "a100-80", "h100-80", "h200", "l40s", "rtx4090"} <= GPUS.keys()
    assert all(name == gpu.name for name, gpu in GPUS.items())
    assert gpu_named("a100-80").flops("bfloat16") == 312e12
    assert gpu_named("a100-80").flops("float32") == 156e12


def test_a_gpu_by_its_numbers() -> None:
    gpu = gpu_named("96:400.5")
    assert (gpu.memory, gpu.bfloat16) == (96e9, 400.5e12)


@pytest.mark.parametrize("name", ["a100", "0:100", "80:0", "80:", "-1:5", ""])
def test_an_unknown_gpu_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown GPU .*a100-80.* such as 96:400"):
        gpu_named(name)
