"""A gated MLP by ONNX Runtime on a CPU, whose products with 2 to 16 rows are twice as fast.

    down(activation(gate(x)) * up(x))

What generation runs in every call and most of its weights; see `docs/log.md` on torch's products.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

Activation = Literal["gelu", "silu"]
"""GELU in its tanh form."""
MOST_ROWS = 32
"""More are as fast in torch."""
MOST_THREADS = 8
"""Each MLP has threads of its own; a few rows are bound by memory, not by their number."""
OPSET, IR_VERSION = 20, 10


class OnnxMlp:
    """The weights of an MLP as they are now; `is_current` says whether they still are.

    Args:
        gate: Without bias, as the others.
        up: Beside it.
        down: Behind them.
        activation: Of the gate.
    """

    def __init__(
        self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: Activation
    ) -> None:
        import onnxruntime

        self._weights = (gate.weight, up.weight, down.weight)
        self._made_from = self._state()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = min(torch.get_num_threads(), MOST_THREADS)
        # waiting threads would take the cores from torch and from simulators
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            _model(*self._weights, activation), options, providers=["CPUExecutionProvider"]
        )

    @property
    def is_current(self) -> bool:
        return self._state() == self._made_from

    def __call__(self, x: Tensor) -> Tensor:
        """(..., width) to the same shape; there are no gradients."""
        rows = x.detach().reshape(-1, x.shape[-1]).contiguous().numpy()
        (found,) = self._session.run(None, {"x": rows})
        return torch.from_numpy(found).view(x.shape)

    def _state(self) -> list[tuple[int, int]]:
        return [(w.data_ptr(), 0 if w.is_inference() else w._version) for w in self._weights]


def _model(gate: Tensor, up: Tensor, down: Tensor, activation: Activation) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    def weight(name: str, values: Tensor) -> Any:
        return numpy_helper.from_array(np.ascontiguousarray(values.detach().t().numpy()), name)

    nodes = [
        helper.make_node("MatMul", ["x", "gate"], ["gated"]),
        helper.make_node("MatMul", ["x", "up"], ["upper"]),
    ]
    if activation == "gelu":
        nodes.append(helper.make_node("Gelu", ["gated"], ["active"], approximate="tanh"))
    else:
        nodes.append(helper.make_node("Sigmoid", ["gated"], ["share"]))
        nodes.append(helper.make_node("Mul", ["gated", "share"], ["active"]))
    nodes.append(helper.make_node("Mul", ["active", "upper"], ["wide"]))
    nodes.append(helper.make_node("MatMul", ["wide", "down"], ["y"]))
    shape = ("R", gate.shape[1])
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [weight("gate", gate), weight("up", up), weight("down", down)],
    )
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
    return bytes(model.SerializeToString())
