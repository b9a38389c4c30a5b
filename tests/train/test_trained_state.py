"""What training changes is told from what is frozen, and frozen weights have a digest."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from oatkit.train.trained_state import frozen_digest, trained_parameters, trained_tensors


def make() -> nn.Sequential:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(300, 20), nn.BatchNorm1d(20), nn.Linear(20, 2))
    module[0].requires_grad_(False)
    return module


def test_buffers_are_trained_and_frozen_parameters_are_not() -> None:
    module = make()
    assert set(trained_parameters(module)) == {"1.weight", "1.bias", "2.weight", "2.bias"}
    buffers = {name for name, _ in module.named_buffers()}
    assert set(trained_tensors(module)) == {*trained_parameters(module), *buffers}


def test_a_frozen_weight_under_two_names_is_frozen_under_both() -> None:
    module = make()
    module.append(nn.Linear(300, 20))
    module[3].weight = module[0].weight
    assert "3.weight" not in trained_tensors(module)


@pytest.mark.parametrize("change", ["value", "shape", "name"])
def test_the_digest_tells_frozen_weights_apart(change: str) -> None:
    module, other = make(), make()
    assert frozen_digest(module) == frozen_digest(other)
    with torch.no_grad():
        other[2].weight += 1
    assert frozen_digest(module) == frozen_digest(other), "trained weights do not count"
    if change == "value":
        with torch.no_grad():
            other[0].weight *= 1.001
    elif change == "shape":
        other[0].weight = nn.Parameter(other[0].weight.detach().T.contiguous(), requires_grad=False)
    else:
        other = nn.Sequential(nn.Identity(), *other)
    assert frozen_digest(module) != frozen_digest(other)


def test_the_digest_reads_few_values_of_any_type() -> None:
    module = make()
    half = make().to(torch.bfloat16)
    assert frozen_digest(half) != frozen_digest(module)
    with torch.no_grad():
        module[0].weight.view(-1)[1] += 1
    assert frozen_digest(module) == frozen_digest(make()), "between the sampled values"
    assert frozen_digest(make().requires_grad_(True)) is None
