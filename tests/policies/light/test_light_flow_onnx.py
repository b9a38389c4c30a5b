"""The files of `light-flow` on their own: every batch size, any width, one layer or several."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from oatkit.data import Dataset
from oatkit.nn.onnx.graph import open_session
from oatkit.policies import LightFlowConfig, policy_for_dataset
from oatkit.policies.light.light_flow_onnx import flow_encoder_model, flow_facts, flow_step_model
from tests.policies import tiny


@pytest.mark.parametrize(
    "changes",
    [{}, {"num_layers": 1}, {"width": 15, "num_heads": 3}],
    ids=["two layers", "one layer", "odd width"],
)
def test_velocities_are_those_of_torch(changes: dict[str, int], dataset: Dataset) -> None:
    pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    config = LightFlowConfig(replace(tiny.CONFIG, **changes))
    tokenizer = tiny.make_tokenizer("bin", dataset)
    policy = policy_for_dataset(config, tokenizer, dataset, history=1)
    encoder, step = (
        open_session(model) for model in (flow_encoder_model(policy), flow_step_model(policy))
    )
    head = policy.net.head
    for count in (1, 3):
        batch = tiny.batch(policy, dataset, count)
        read = policy.read(batch)
        state = np.asarray(batch["observation.state"], np.float32)
        keys, values = encoder.run(
            ["keys", "values"], {"task": read.task.numpy(), "observation.state": state}
        )
        point, time = torch.randn(count, *policy.net.chunk_shape), torch.rand(count)
        with torch.inference_mode():
            context = policy.net.encode(read)
            wanted = head(point, head.encode_time(time), context)
        np.testing.assert_allclose(keys, torch.cat([pair[0] for pair in context]), atol=1e-5)
        np.testing.assert_allclose(values, torch.cat([pair[1] for pair in context]), atol=1e-5)
        given = {"point": point.numpy(), "time": time.numpy(), "keys": keys, "values": values}
        (found,) = step.run(None, given)
        np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=1e-4)


def test_the_facts_are_the_budgets(dataset: Dataset) -> None:
    policy = tiny.make_flow_policy(dataset)
    assert flow_facts(policy) == {"num_steps": 10, "max_steps": 100, "budgets": [1, 2, 5, 10]}
