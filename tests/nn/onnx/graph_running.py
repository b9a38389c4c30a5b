"""Running what a test wrote into a graph."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from oatkit.nn.onnx.graph import Graph, Port, open_session
from oatkit.nn.onnx.layers import IR_VERSION, OPSET


def run(graph: Graph, result: str, **inputs: Tensor) -> NDArray[Any]:
    """The value of `result`; the first axis of every input is free."""
    arrays = {name: value.detach().numpy() for name, value in inputs.items()}
    described = {
        name: Port(array.dtype.name, ("B", *array.shape[1:])) for name, array in arrays.items()
    }
    outputs = {"y": (result, Port("float32", ()))}
    model = graph.model(described, outputs, opset=OPSET, ir_version=IR_VERSION)
    (found,) = open_session(model).run(None, arrays)
    return found
