"""MLPs of a language model by ONNX Runtime: when they are, when not, and that nothing changes."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.decoder_backend import has_onnx
from oatkit.policies.vlm.backbones import onnx_mlps
from oatkit.policies.vlm.backbones.onnx_mlps import use_onnx_mlps
from tests.policies.vlm.backbones.transformers_reference import load

pytestmark = pytest.mark.skipif(not has_onnx(), reason="oatkit[onnx] is not installed")

WIDTH = 6


class GatedMlp(nn.Module):
    """An MLP as language models of `transformers` have it."""

    def __init__(self, bias: bool = False) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(WIDTH, 9, bias), nn.Linear(WIDTH, 9, bias)
        self.down_proj = nn.Linear(9, WIDTH, bias)
        self.num_calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.num_calls += 1
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def make_layer(activation: str = "silu", bias: bool = False) -> tuple[GatedMlp, nn.Module]:
    """An MLP that ONNX Runtime may run, and its twin in torch."""
    torch.manual_seed(0)
    layer = SimpleNamespace(mlp=GatedMlp(bias))
    twin = copy.deepcopy(layer.mlp)
    use_onnx_mlps([layer], SimpleNamespace(hidden_act=activation))
    return layer.mlp, twin


@torch.inference_mode()
def test_a_few_slots_are_run_by_onnx_runtime() -> None:
    mlp, twin = make_layer()
    for shape in ((1, 1, WIDTH), (2, 3, WIDTH)):
        x = torch.randn(shape)
        torch.testing.assert_close(mlp(x), twin(x))
    assert mlp.num_calls == 0


def test_all_else_is_run_by_torch() -> None:
    """Gradients, many slots, and other numbers than float32."""
    mlp, twin = make_layer()
    x = torch.randn(2, 3, WIDTH)
    mlp(x).sum().backward()
    assert mlp.gate_proj.weight.grad is not None
    with torch.inference_mode():
        many = torch.randn(1, onnx_mlps.MAX_ROWS + 1, WIDTH)
        assert torch.equal(mlp(many), twin(many))
        mlp.double()
        mlp(x.double())
    assert mlp.num_calls == 3


def test_weights_that_have_changed_are_packed_again() -> None:
    mlp, twin = make_layer()
    x = torch.randn(1, 2, WIDTH)
    with torch.inference_mode():
        before = mlp(x)
    with torch.no_grad():
        for module in (mlp, twin):
            module.down_proj.weight.mul_(3)
    with torch.inference_mode():
        torch.testing.assert_close(mlp(x), 3 * before)
        assert mlp.num_calls == 0
        torch.testing.assert_close(mlp(x), twin(x))


def test_an_evaluation_during_training_does_without() -> None:
    """Weights that are sharded cannot be shared with another runtime."""
    mlp, _ = make_layer()
    with torch.no_grad():
        mlp(torch.randn(1, 2, WIDTH))
    assert mlp.num_calls == 1


@torch.inference_mode()
@pytest.mark.parametrize("change", ["activation", "bias", "runtime"])
def test_what_it_cannot_run_is_left_alone(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if change == "runtime":
        monkeypatch.setattr(onnx_mlps, "has_onnx", lambda: False)
    mlp, _ = make_layer("relu" if change == "activation" else "silu", change == "bias")
    mlp(torch.randn(1, 1, WIDTH))
    assert mlp.num_calls == 1


def test_adapters_are_left_alone(checkpoints: dict[str, Path]) -> None:
    """Their sum is not in the weights."""
    for rank, is_packed in ((0, True), (2, False)):
        backbone = load(checkpoints["qwen3-vl"], lora_rank=rank)
        layers = backbone.family.language_model(backbone.model).layers
        packed = [isinstance(layer.mlp.forward, onnx_mlps._MlpForward) for layer in layers]
        assert packed == [is_packed] * len(layers)
