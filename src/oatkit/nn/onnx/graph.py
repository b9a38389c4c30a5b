"""An ONNX file, written node by node, and a session that runs it.

Nodes are written out rather than traced by torch: so the file is the same whatever version of torch
is installed, the batch size stays free, and it takes no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oatkit.errors import MissingExtraError


@dataclass(frozen=True)
class Port:
    """Type and shape of an input or output of a graph.

    Attributes:
        dtype: Name of the type in numpy.
        shape: Sizes of the axes; a word for an axis of any size.
    """

    dtype: str
    shape: tuple[int | str, ...]


class Graph:
    """Nodes and constants of a graph; a method that adds a node gives the name of its result."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._num_results = 0

    def weight(self, values: Tensor | list[int] | float) -> str:
        """Add a constant, which is a tensor, a list of integers or one float, and give its name."""
        name = f"weight_{len(self._weights)}"
        kind = np.float32 if isinstance(values, float) else np.int64
        array = as_array(values) if isinstance(values, Tensor) else np.array(values, kind)
        self._weights.append(_onnx().numpy_helper.from_array(array, name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result and give the name of the result."""
        return self.add_many(kind, 1, *inputs, **attributes)[0]

    def add_many(self, kind: str, num_results: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several results and give their names."""
        names = [f"result_{self._num_results + i}" for i in range(num_results)]
        self._num_results += num_results
        self._nodes.append(_onnx().helper.make_node(kind, inputs, names, **attributes))
        return names

    def norm(self, x: str, weight_and_bias: tuple[Tensor, Tensor]) -> str:
        """Add a layer norm."""
        return self.add("LayerNormalization", x, *map(self.weight, weight_and_bias))

    def parts(self, x: str, num_parts: int, axis: int) -> list[str]:
        """Split into equal parts along an axis."""
        return self.add_many("Split", num_parts, x, axis=axis, num_outputs=num_parts)

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """Reshape; one size may be -1, and 0 keeps the size of that axis."""
        return self.add("Reshape", x, self.weight(list(shape)))

    def model(
        self,
        inputs: Mapping[str, Port],
        outputs: Mapping[str, tuple[str, Port]],
        *,
        opset: int,
        ir_version: int,
    ) -> bytes:
        """The file as bytes.

        Args:
            inputs: Type and shape of each input, by the name that nodes use.
            outputs: Result of a node for each output, with its type and shape, by name.
            opset: Version of the operators.
            ir_version: Version of the file format.
        """
        helper = _onnx().helper
        names = {own: name for name, (own, _) in outputs.items()}
        for node in self._nodes:
            for places in (node.input, node.output):
                places[:] = [names.get(place, place) for place in places]
        graph = helper.make_graph(
            self._nodes,
            "oatkit",
            [_described(name, port) for name, port in inputs.items()],
            [_described(name, port) for name, (_, port) in outputs.items()],
            self._weights,
        )
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=ir_version, producer_name="oatkit"
        )
        return bytes(model.SerializeToString())


def ports(model: bytes) -> dict[str, dict[str, dict[str, Any]]]:
    """Type and shape of the `inputs` and `outputs` of a file by name, in JSON types."""
    graph = _onnx().load_from_string(model).graph
    return {
        "inputs": {value.name: _port(value) for value in graph.input},
        "outputs": {value.name: _port(value) for value in graph.output},
    }


def open_session(model: bytes, max_threads: int | None = None) -> Any:
    """Session of ONNX Runtime that runs a file, with as many threads as torch has.

    Args:
        model: The file as bytes.
        max_threads: Maximum number of threads, if fewer.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("onnx") from error
    options = onnxruntime.SessionOptions()
    num_threads = torch.get_num_threads()
    options.intra_op_num_threads = min(num_threads, max_threads or num_threads)
    # waiting threads would take the cores from torch and from simulators
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def as_array(tensor: Tensor) -> NDArray[Any]:
    """A contiguous array on the CPU with the values of a tensor."""
    return np.ascontiguousarray(tensor.detach().cpu().numpy())


def _described(name: str, port: Port) -> Any:
    helper = _onnx().helper
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype)), port.shape
    )


def _port(value: Any) -> dict[str, Any]:
    kind = value.type.tensor_type
    dtype = _onnx().helper.tensor_dtype_to_np_dtype(kind.elem_type)
    shape = [size.dim_param or size.dim_value for size in kind.shape.dim]
    return {"dtype": dtype.name, "shape": shape}


def _onnx() -> Any:
    try:
        import onnx
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise MissingExtraError("onnx") from error
    return onnx
