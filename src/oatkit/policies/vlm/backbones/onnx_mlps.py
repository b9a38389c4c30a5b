"""Generation on a CPU: the MLPs of a language model run by ONNX Runtime where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from oatkit.nn.decoder_backend import has_onnx
from oatkit.nn.onnx.gated_mlp import MAX_ROWS, Activation, OnnxMlp

ACTIVATIONS: dict[str, Activation] = {"gelu_pytorch_tanh": "gelu", "silu": "silu"}


def speed_up(layers: Sequence[Any], text_config: Any) -> None:
    """Let MLPs compute a few slots by ONNX Runtime; all else, and gradients, stay with torch.

    Args:
        layers: Of the language model.
        text_config: Its config.
    """
    name = getattr(text_config, "hidden_activation", None) or text_config.hidden_act
    if name not in ACTIVATIONS or not has_onnx():
        return
    for layer in layers:
        mlp = layer.mlp
        parts = (mlp.gate_proj, mlp.up_proj, mlp.down_proj)
        if all(type(part) is nn.Linear and part.bias is None for part in parts):  # no adapters
            mlp.forward = _FewRows(mlp.forward, parts, ACTIVATIONS[name])


class _FewRows:
    """The forward pass of an MLP; weights are packed when they are first needed so."""

    def __init__(
        self,
        forward: Callable[[Tensor], Tensor],
        parts: tuple[nn.Linear, nn.Linear, nn.Linear],
        activation: Activation,
    ) -> None:
        self._forward = forward
        self._parts = parts
        self._activation = activation
        self._packed: OnnxMlp | None = None

    def __call__(self, x: Tensor) -> Tensor:
        is_plain = x.device.type == "cpu" and x.dtype == torch.float32
        if torch.is_grad_enabled() or not is_plain or x[..., 0].numel() > MAX_ROWS:
            return self._forward(x)
        if self._packed is None or not self._packed.is_current:
            self._packed = OnnxMlp(*self._parts, self._activation)
        return self._packed(x)
