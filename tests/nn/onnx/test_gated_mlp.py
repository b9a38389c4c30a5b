"""An MLP in ONNX Runtime gives what torch gives, and notices when the weights have changed."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.decoder_backend import has_onnx
from oatkit.nn.onnx.gated_mlp import Activation, OnnxMlp

pytestmark = pytest.mark.skipif(not has_onnx(), reason="oatkit[onnx] is not installed")


@pytest.mark.parametrize("activation", ["gelu", "silu"])
@pytest.mark.parametrize("shape", [(1, 1, 6), (2, 3, 6)])
def test_it_is_torchs(activation: Activation, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    gate, up, down = nn.Linear(6, 10, False), nn.Linear(6, 10, False), nn.Linear(10, 6, False)
    x = torch.randn(shape)
    packed = OnnxMlp(gate, up, down, activation)
    act = F.silu if activation == "silu" else lambda y: F.gelu(y, approximate="tanh")
    torch.testing.assert_close(packed(x), down(act(gate(x)) * up(x)).detach())
    assert packed.is_current
    with torch.no_grad():
        up.weight.mul_(2)
    assert not packed.is_current
