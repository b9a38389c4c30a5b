"""Modules without memory for weights, and weights that are placed one at a time."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from oatkit.nn.weight_loading import WithoutWeights, place_weights

CPU = torch.device("cpu")


class _Net(nn.Module):
    """Weights of several makes, and a buffer that no artifact holds."""

    def __init__(self) -> None:
        super().__init__()
        self.state = nn.Linear(3, 4)
        self.body = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Embedding(5, 4))
        self.slots = nn.Parameter(0.02 * torch.randn(2, 4))
        self.register_buffer("counts", torch.zeros(2))
        self.register_buffer("mask", torch.ones(2, 2).tril().bool(), persistent=False)


def test_weights_take_no_memory_and_no_random_numbers() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with WithoutWeights():
        net = _Net()
    assert torch.equal(torch.get_rng_state(), before)
    assert {p.device.type for p in net.parameters()} == {"meta"}
    assert net.mask.tolist() == [[True, False], [True, True]]


def test_weights_are_placed_with_the_types_of_the_module() -> None:
    state = _Net().state_dict()
    wanted = {name: tensor.clone() for name, tensor in state.items()}
    with WithoutWeights():
        net = _Net()
    net.body.requires_grad_(False)
    place_weights(net, {n: t.double() for n, t in state.items()}, dtype=None, device=CPU)
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(parameter.data, wanted[name])
        assert parameter.requires_grad == (not name.startswith("body"))


def test_a_type_is_that_of_all_weights_but_the_named() -> None:
    with WithoutWeights():
        net = _Net()
    how = {"dtype": torch.bfloat16, "device": CPU, "float32": ("state",)}
    place_weights(net, _Net().state_dict(), **how)  # type: ignore[arg-type]
    found = {name: tensor.dtype for name, tensor in net.state_dict().items()}
    kept = {"state.weight", "state.bias", "counts"}
    assert {name for name, dtype in found.items() if dtype == torch.float32} == kept


def test_weights_share_nothing_with_what_they_come_from() -> None:
    """They may come from a mapped file: training must not write to it."""
    given = _Net().state_dict()
    before = given["slots"].clone()
    net = _Net()
    place_weights(net, dict(given), dtype=None, device=CPU)
    with torch.no_grad():
        net.slots += 1
    assert torch.equal(given["slots"], before)


def test_another_state_is_an_error() -> None:
    with WithoutWeights():
        net = _Net()
    state = _Net().state_dict()
    del state["slots"]
    with pytest.raises(RuntimeError, match="slots"):
        place_weights(net, state, dtype=None, device=CPU)
