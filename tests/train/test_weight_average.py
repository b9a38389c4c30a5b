"""The moving average: of trained weights alone, with the numbers that it always had."""

from __future__ import annotations

import torch
from torch import nn

from oatkit.train.weight_average import begin_average, move_average, use_average


def make() -> nn.Sequential:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    module[0].bias.requires_grad_(False)
    return module


def test_it_is_bit_for_bit_that_of_one_weight_after_the_other() -> None:
    module = make()
    average = begin_average(module)
    assert set(average) == {"0.weight", "1.weight", "1.bias", "2.weight", "2.bias"}
    wanted = {name: tensor.clone() for name, tensor in average.items()}
    for step in range(20):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter))
        move_average(average, module, 0.9, step)
        decay = min(0.9, (1 + step) / (10 + step))
        for name, tensor in wanted.items():
            tensor.lerp_(module.get_parameter(name).detach(), 1 - decay)
    for name, tensor in wanted.items():
        assert torch.equal(average[name], tensor), name


def test_it_becomes_the_weights_and_leaves_all_else() -> None:
    module = make()
    average = {name: tensor + 1 for name, tensor in begin_average(module).items()}
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    use_average(average, module)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, average.get(name, before[name])), name
    assert module[0].weight.requires_grad
