"""The table of optimizers: each trains, and stays the same through a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from oatkit.train.checkpoint import load_optimizer_tensors, optimizer_tensors
from oatkit.train.optimizers import OPTIMIZERS
from tests.train.regression import CONFIG, Regression, train


def make(name: str, module: nn.Module) -> torch.optim.Optimizer:
    return OPTIMIZERS[name].make(module.parameters(), lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1)


def step(module: nn.Module, optimizer: torch.optim.Optimizer, times: int) -> None:
    generator = torch.Generator().manual_seed(times)
    for _ in range(times):
        for parameter in module.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_state_is_tensors_that_bring_it_back(name: str) -> None:
    """A copy made of weights and state tensors takes the same steps."""
    torch.manual_seed(0)
    module = nn.Linear(4, 3)
    optimizer = make(name, module)
    step(module, optimizer, 3)
    copy = nn.Linear(4, 3)
    copy.load_state_dict(module.state_dict())
    again = make(name, copy)
    tensors = optimizer_tensors(module, optimizer)
    assert all(isinstance(value, torch.Tensor) for value in tensors.values())
    load_optimizer_tensors(copy, again, {key: value.clone() for key, value in tensors.items()})
    for each, its in ((module, optimizer), (copy, again)):
        step(each, its, 2)
    assert torch.equal(copy.weight, module.weight)
    assert torch.equal(copy.bias, module.bias)


@pytest.mark.parametrize(("name", "device"), [("adamw", "meta"), ("soap", "cpu")])
def test_restored_state_is_where_the_optimizer_wants_it(name: str, device: str) -> None:
    """The meta device stands for CUDA, where a fused AdamW whose `step` is on the CPU raises an
    error at its first step, so that no run could be resumed. SOAP reads its `step` on the CPU."""
    module = nn.Linear(4, 3)
    optimizer = make(name, module)
    step(module, optimizer, 3)
    tensors = optimizer_tensors(module, optimizer)
    away = nn.Linear(4, 3, device="meta")
    again = make(name, away)
    load_optimizer_tensors(away, again, tensors)
    for state in again.state.values():
        where = {what: value.device.type for what, value in state.items()}
        assert where.pop("step") == device
        assert set(where.values()) == {"meta"}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_it_lowers_a_loss(name: str, tmp_path: Path) -> None:
    job = Regression()
    config = replace(CONFIG, steps=150, optimizer=name, learning_rate=0.05)
    train(job, config, tmp_path, show_progress=False)
    inputs = job.batch(torch.arange(100).numpy())[0]
    error = (job.module(inputs).squeeze(1) - inputs.sum(dim=1)).square().mean()
    assert error < 0.3 * inputs.sum(dim=1).var()


@pytest.mark.parametrize("name", [n for n, entry in OPTIMIZERS.items() if entry.is_elementwise])
def test_an_elementwise_one_does_the_same_on_parts(name: str) -> None:
    """What sharding needs: half of the rows are updated as they are in all rows."""
    torch.manual_seed(0)
    full = nn.Linear(4, 6, bias=False)
    half = nn.Linear(4, 3, bias=False)
    half.weight.data.copy_(full.weight[:3])
    optimizers = [make(name, module) for module in (full, half)]
    for number in range(3):
        grad = torch.randn(6, 4, generator=torch.Generator().manual_seed(number))
        full.weight.grad, half.weight.grad = grad, grad[:3].clone()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(half.weight, full.weight[:3])
