"""A pass without memory is counted as the same pass with memory is measured."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from oatkit.nn.dry_run import DryRun, without_memory
from tests.nn.measured_memory import measured_peak


class Blocks(nn.Module):
    """Attention, a mask, a lookup and an MLP, as language models have them."""

    def __init__(self, *, is_saving: bool = False) -> None:
        super().__init__()
        self.rows = nn.Embedding(64, 32)
        self.mix = nn.ModuleList(nn.Linear(32, 96) for _ in range(3))
        self.wide = nn.ModuleList(nn.Linear(32, 128) for _ in range(3))
        self.narrow = nn.ModuleList(nn.Linear(128, 32) for _ in range(3))
        self._is_saving = is_saving

    def forward(self, ids_BK: Tensor) -> Tensor:
        x_BKD = self.rows(ids_BK)
        for number in range(3):
            run = self._block if not self._is_saving else self._checkpointed
            x_BKD = run(x_BKD, number)
        return x_BKD[ids_BK > 3].float().square().mean()

    def _checkpointed(self, x_BKD: Tensor, number: int) -> Tensor:
        return checkpoint(self._block, x_BKD, number, use_reentrant=False)

    def _block(self, x_BKD: Tensor, number: int) -> Tensor:
        parts = self.mix[number](x_BKD).unflatten(-1, (3, 4, 8)).unbind(2)
        query, key, value = (part.transpose(1, 2) for part in parts)
        seen = F.scaled_dot_product_attention(query, key, value)
        x_BKD = x_BKD + seen.transpose(1, 2).flatten(2)
        return x_BKD + self.narrow[number](F.gelu(self.wide[number](x_BKD)))


IDS = torch.arange(8 * 24).view(8, 24) % 64


def step(module: nn.Module, is_bfloat16: bool) -> None:
    with torch.autocast("cpu", torch.bfloat16, enabled=is_bfloat16):
        loss = module(IDS)
    loss.backward()


def counted(module: nn.Module, is_bfloat16: bool) -> DryRun:
    with DryRun(module) as run:
        step(module, is_bfloat16)
    return run


CASES = pytest.mark.parametrize("is_bfloat16", [False, True], ids=["float32", "bfloat16"])
SAVING = pytest.mark.parametrize("is_saving", [False, True], ids=["plain", "checkpointed"])


@CASES
@SAVING
def test_no_memory_is_counted_as_memory_is(is_bfloat16: bool, is_saving: bool) -> None:
    real = counted(Blocks(is_saving=is_saving), is_bfloat16)
    module = without_memory(Blocks(is_saving=is_saving))
    assert {p.untyped_storage().device.type for p in module.parameters()} == {"meta"}
    empty = counted(module, is_bfloat16)
    names = ("activations", "copies", "peak", "flops")
    assert [getattr(empty, name) for name in names] == [getattr(real, name) for name in names]


@CASES
@SAVING
def test_operations_are_those_of_torchs_counter(is_bfloat16: bool, is_saving: bool) -> None:
    """Torch's counter does not know the fused attention of a CPU, so it is counted apart here."""
    module = Blocks(is_saving=is_saving)
    with FlopCounterMode(display=False) as counter:
        step(module, is_bfloat16)
    passes = 2 if is_saving else 1  # forward, and again before backward
    one = 2 * 2 * 8 * 4 * 24 * 24 * 8  # two products for each of 8 samples with 4 heads of 8
    attention = 3 * one * (passes + 2.5)  # five products backward
    assert counted(module, is_bfloat16).flops == counter.get_total_flops() + attention


@CASES
@SAVING
def test_bytes_are_those_of_the_allocator(is_bfloat16: bool, is_saving: bool) -> None:
    module = Blocks(is_saving=is_saving)
    step(module, is_bfloat16)  # what kernels prepare once
    module.zero_grad(set_to_none=True)
    measured = measured_peak(lambda: step(module, is_bfloat16))
    module.zero_grad(set_to_none=True)
    # on some CPUs kernels of bfloat16 hold a product's inputs and output in float32 meanwhile
    rows, narrow, wide = IDS.numel(), 32, 128
    scratch = 4 * (rows * narrow + narrow * wide + rows * wide) if is_bfloat16 else 0
    found = counted(module, is_bfloat16).peak
    assert 0.95 * measured - scratch <= found <= 1.05 * measured


def test_weights_copies_and_gradients_are_kept_apart() -> None:
    module = nn.Linear(100, 50, bias=False)
    inputs = torch.ones(4, 100)
    with DryRun(module) as run, torch.autocast("cpu", torch.bfloat16):
        module(inputs).sum().backward()
    assert run.copies == 2 * 100 * 50
    assert run.activations < run.peak
    assert run.flops == 2 * (2 * 4 * 100 * 50)  # inputs need no gradient
    again = run.activations
    module(inputs)
    assert run.activations == again  # it counts only while it is entered
