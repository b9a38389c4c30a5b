"""Counted bytes: what a parameter costs, and that the docs say what was counted."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("peft", reason="vision-language policies need oatkit[vlm]")

from benchmarks import record, vlm_memory
from benchmarks.report import DOCS
from benchmarks.vlm_memory import GRADIENT, HALF, MOMENTS, WEIGHT, Counts


def test_the_table_of_the_docs_is_the_counted_one() -> None:
    results: dict[str, Any] = record.read_results("vlm_memory")
    assert vlm_memory.memory_table(results) in (DOCS / "vlm.md").read_text()
    for found in results.values():
        counts = Counts(**found["parameters"])
        assert found["gigabytes"]["vlm-ar"] == vlm_memory.gigabytes(counts, 0)
        assert found["gigabytes"]["vlm-tc"] == vlm_memory.gigabytes(counts, counts.expert)


def test_a_published_model_is_counted_without_its_weights() -> None:
    counts = Counts.of("Qwen3-VL 2B")
    assert asdict(counts) == record.read_results("vlm_memory")["Qwen3-VL 2B"]["parameters"]
    assert counts.outside + counts.matrices < 1.1 * counts.backbone


def test_weights_gradients_and_moments_take_what_is_counted() -> None:
    layer = nn.Linear(16, 8)
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
    layer(torch.ones(1, 16)).sum().backward()
    optimizer.step()
    held: list[Tensor] = [*layer.parameters(), *(p.grad for p in layer.parameters())]  # type: ignore[list-item]
    held += [t for state in optimizer.state.values() for t in state.values() if t.ndim]
    size = sum(tensor.numel() * tensor.element_size() for tensor in held)
    assert size == (WEIGHT + GRADIENT + MOMENTS) * (16 * 8 + 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_copies_matrices_that_are_not_bfloat16(dtype: torch.dtype) -> None:
    """The backward pass needs the copy, so that it stays as long as the activations do."""
    layer = nn.Linear(16, 8, bias=False, dtype=dtype).requires_grad_(dtype == torch.float32)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.shape in ((16, 8), (8, 16)) and tensor.data_ptr() != layer.weight.data_ptr():
            kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    saved = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with saved, torch.autocast("cpu", torch.bfloat16):
        layer(torch.ones(1, 16, requires_grad=True))
    assert sum(kept.values()) == (HALF * 16 * 8 if dtype == torch.float32 else 0)
