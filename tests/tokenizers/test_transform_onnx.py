"""Representations undone by ONNX nodes give what the transform gives."""

from __future__ import annotations

import numpy as np
import pytest

from oatkit.data.action_transform import ActionTransform
from oatkit.nn.onnx import layers as modules
from oatkit.nn.onnx.graph import Graph, Port, open_session
from oatkit.tokenizers.transform_onnx import inverted

NAMES = ("a", "b", "c")


@pytest.mark.parametrize(
    "words", ["delta", "relative:0,2@1,0", "unwrap:1 delta:0", "unwrap:0@0,360 binary:2@-1,1"]
)
def test_nodes_invert_as_the_transform_does(words: str) -> None:
    pytest.importorskip("onnxruntime")
    transform = ActionTransform.parse(words, NAMES, ("s", "t"))
    graph = Graph()
    actions = inverted(graph, transform, "x")
    inputs = {"x": Port("float32", ("B", 4, 3))}
    if transform.needs_state:
        inputs["state"] = Port("float32", ("B", 2))
    outputs = {"y": (actions, Port("float32", ("B", 4, 3)))}
    how = {"opset": modules.OPSET, "ir_version": modules.IR_VERSION}
    session = open_session(graph.model(inputs, outputs, **how))
    rng = np.random.default_rng(0)
    given = {"x": 4 * rng.normal(size=(5, 4, 3)), "state": rng.normal(size=(5, 2))}
    numbers = {name: given[name].astype(np.float32) for name in inputs}
    (found,) = session.run(None, numbers)
    wanted = transform.invert(numbers["x"], numbers.get("state"))
    np.testing.assert_allclose(found, wanted, atol=1e-3)


def test_rotations_are_refused() -> None:
    transform = ActionTransform.parse("euler-to-6d:0-2", NAMES, ())
    with pytest.raises(ValueError, match="the actions euler-to-6d:0-2 have no decoder in ONNX"):
        inverted(Graph(), transform, "x")
