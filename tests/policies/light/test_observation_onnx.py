"""The encoder of observations as a graph: the same context as with torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oatkit.data import Dataset
from oatkit.nn.onnx import layers
from oatkit.nn.onnx.graph import Graph, Port, open_session
from oatkit.policies.light.observation_encoder import encode_observations
from oatkit.policies.light.observation_onnx import add_encoder, observation_ports
from tests.policies import tiny


@pytest.mark.parametrize(
    "settings",
    [{}, {"cameras": ("front",)}, {"cameras": ("front",), "reads_state": False, "history": 1}],
    ids=["state", "both", "image"],
)
def test_the_context_is_the_same(settings: dict[str, object], dataset: Dataset) -> None:
    pytest.importorskip("onnxruntime")
    policy = tiny.make_policy("oat", dataset, **settings)
    config, graph = policy.net.config, Graph()
    context = add_encoder(graph, policy.net, config, policy.spec)
    shape = ("B", len(policy.net.slots), config.width)
    ports = observation_ports(policy.spec)
    outputs = {"context": (context, Port("float32", shape))}
    versions = {"opset": layers.OPSET, "ir_version": layers.IR_VERSION}
    session = open_session(graph.model(ports, outputs, **versions))
    batch = tiny.batch(policy, dataset)
    if policy.spec.state is not None:  # beyond what was seen, both are within the same bounds
        batch["observation.state"][0, 0, 0] += 100 * policy.spec.state.scale[0]
    read = policy.read(batch)
    inputs = {
        name: np.asarray(batch[name], port.dtype) for name, port in ports.items() if name != "task"
    }
    (found,) = session.run(None, {"task": read.task.numpy(), **inputs})
    with torch.inference_mode():
        wanted = encode_observations(policy.net, config, read)
    np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=1e-3)
