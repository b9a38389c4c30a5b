"""MLPs of a language model in ONNX Runtime, which makes generation on a CPU faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from oatkit.nn.decoder_backend import has_onnx
from oatkit.nn.onnx.gated_mlp import MAX_ROWS, Activation, OnnxMlp

ACTIVATIONS: dict[str, Activation] = {"gelu_pytorch_tanh": "gelu", "silu": "silu"}
"""Activations that ONNX Runtime computes, by their names in `transformers`."""


def use_onnx_mlps(layers: Sequence[Any], text_config: Any) -> None:
    """Run MLPs on a few slots in ONNX Runtime in torch's inference mode; all else stays with torch.

    Nothing changes where ONNX Runtime is not installed, or for an MLP that has biases, adapters or
    another activation.

    Args:
        layers: Layers of a language model of `transformers`.
        text_config: Config of that language model.
    """
    name = getattr(text_config, "hidden_activation", None) or text_config.hidden_act
    if name not in ACTIVATIONS or not has_onnx():
        return
    for layer in layers:
        mlp = layer.mlp
        parts = (mlp.gate_proj, mlp.up_proj, mlp.down_proj)
        if all(type(part) is nn.Linear and part.bias is None for part in parts):  # no adapters
            mlp.forward = _MlpForward(mlp.forward, parts, ACTIVATIONS[name])


class _MlpForward:
    """The forward pass of an MLP, which copies the weights when it first runs them in ONNX."""

    def __init__(
        self,
        forward: Callable[[Tensor], Tensor],
        parts: tuple[nn.Linear, nn.Linear, nn.Linear],
        activation: Activation,
    ) -> None:
        self._forward = forward
        self._parts = parts
        self._activation = activation
        self._onnx_mlp: OnnxMlp | None = None

    def __call__(self, x: Tensor) -> Tensor:
        is_plain = x.device.type == "cpu" and x.dtype == torch.float32
        # evaluations during training do without: their weights change, and may be sharded
        is_acting = torch.is_inference_mode_enabled()
        if not is_acting or not is_plain or x[..., 0].numel() > MAX_ROWS:
            return self._forward(x)
        if self._onnx_mlp is None or not self._onnx_mlp.is_current:
            self._onnx_mlp = OnnxMlp(*self._parts, self._activation)
        return self._onnx_mlp(x)
