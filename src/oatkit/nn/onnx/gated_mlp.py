"""The gated MLP of a language model in ONNX Runtime, for a few rows on a CPU.

    down(activation(gate(x)) * up(x))

Generation spends most of its time in these products, and with 2 to 16 rows ONNX Runtime is twice as
fast as torch; `docs/log.md` has the measurements.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from oatkit.nn.onnx.graph import Graph, Port, open_session
from oatkit.nn.weight_versions import weight_versions

Activation = Literal["gelu", "silu"]
"""Activation of the gate; GELU is its approximation by tanh."""
MAX_ROWS = 32
"""Maximum number of rows that are worth it; with more, torch is as fast."""
MAX_THREADS = 8
"""Maximum number of threads of an MLP; a few rows are bound by memory, not by threads."""
OPSET, IR_VERSION = 20, 10
"""Version of the operators, the first with `Gelu`, and of the file format of its time."""


class OnnxMlp:
    """A copy of an MLP's weights that ONNX Runtime runs.

    Args:
        gate: Layer whose output the activation is applied to; none of the layers has a bias.
        up: Layer whose output is multiplied by the activated gate.
        down: Layer that the product goes through.
        activation: Activation of the gate.
    """

    def __init__(
        self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: Activation
    ) -> None:
        self._weights = (gate.weight, up.weight, down.weight)
        self._versions = weight_versions(self._weights)
        self._session = open_session(_model(*self._weights, activation), MAX_THREADS)

    @property
    def is_current(self) -> bool:
        """Whether the MLP still has the weights that were copied."""
        return weight_versions(self._weights) == self._versions

    def __call__(self, x: Tensor) -> Tensor:
        """Output of the MLP, (..., width) -> (..., width), without gradients."""
        rows = x.detach().reshape(-1, x.shape[-1]).contiguous().numpy()
        (found,) = self._session.run(None, {"x": rows})
        return torch.from_numpy(found).view(x.shape)


def _model(gate: Tensor, up: Tensor, down: Tensor, activation: Activation) -> bytes:
    graph = Graph()
    gated, upper = (graph.add("MatMul", "x", graph.weight(part.t())) for part in (gate, up))
    if activation == "gelu":
        active = graph.add("Gelu", gated, approximate="tanh")
    else:
        active = graph.add("Mul", gated, graph.add("Sigmoid", gated))
    y = graph.add("MatMul", graph.add("Mul", active, upper), graph.weight(down.t()))
    rows = Port("float32", ("R", gate.shape[1]))
    return graph.model({"x": rows}, {"y": (y, rows)}, opset=OPSET, ir_version=IR_VERSION)
