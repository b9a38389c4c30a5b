"""Graphs: what nodes compute, what a file says of itself, and how a missing extra is named."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
import torch

from oatkit.errors import MissingExtraError
from oatkit.nn.onnx.graph import Graph, Port, as_array, open_session, ports


def two_halves() -> bytes:
    """The halves of (x - 3) * [10, 20, 30, 40], the second named before the first."""
    graph = Graph()
    less = graph.add("Sub", "x", graph.weight(3.0))
    scaled = graph.add("Mul", less, graph.weight(torch.tensor([10.0, 20.0, 30.0, 40.0])))
    left, right = graph.parts(scaled, 2, axis=1)
    outputs = {
        "right": (right, Port("float32", ("B", 2))),
        "left": (left, Port("float32", ("B", 2))),
    }
    return graph.model({"x": Port("float32", ("B", 4))}, outputs, opset=18, ir_version=8)


def test_a_graph_runs_for_any_batch() -> None:
    session = open_session(two_halves())
    for batch_size in (1, 3):
        x = np.random.default_rng(0).normal(size=(batch_size, 4)).astype(np.float32)
        right, left = session.run(["right", "left"], {"x": x})
        wanted = (x - 3) * np.array([10, 20, 30, 40], np.float32)
        np.testing.assert_allclose(np.concatenate([left, right], axis=1), wanted, rtol=1e-6)


def test_a_file_is_valid_and_always_the_same() -> None:
    model = two_halves()
    assert model == two_halves()
    loaded = onnx.load_from_string(model)
    onnx.checker.check_model(loaded, full_check=True)
    assert loaded.producer_name == "oatkit"
    assert [opset.version for opset in loaded.opset_import] == [18]


def test_a_file_says_what_goes_in_and_out() -> None:
    half = {"dtype": "float32", "shape": ["B", 2]}
    assert ports(two_halves()) == {
        "inputs": {"x": {"dtype": "float32", "shape": ["B", 4]}},
        "outputs": {"right": half, "left": half},
    }


def test_constants_keep_their_type() -> None:
    graph = Graph()
    outputs = {}
    for name, values in {"float": 2.5, "whole": [3, -1], "tensor": torch.eye(2).t()[:1]}.items():
        result = graph.add("Identity", graph.weight(values))
        dtype = "int64" if name == "whole" else "float32"
        outputs[name] = (result, Port(dtype, tuple(np.shape(values))))
    found = open_session(graph.model({}, outputs, opset=18, ir_version=8)).run(None, {})
    assert [array.dtype.name for array in found] == ["float32", "int64", "float32"]
    assert [array.tolist() for array in found] == [2.5, [3, -1], [[1, 0]]]


def test_arrays_are_contiguous_and_without_gradient() -> None:
    tensor = torch.arange(6.0, requires_grad=True).view(2, 3).t()
    array = as_array(tensor)
    assert array.flags["C_CONTIGUOUS"]
    assert array.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = two_halves()
    for name in ("onnx", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[onnx\]'"):
        open_session(model)
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[onnx\]'"):
        ports(model)
