"""The light policy as ONNX files: what they read, and that they compute the same."""

from __future__ import annotations

import pytest
import torch

from oatkit.data import Dataset
from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.policies.light.light_onnx import encoder_model, generation_facts, stage_model
from tests.policies import tiny


def test_the_encoder_gives_what_the_stages_read(dataset: Dataset) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    policy = tiny.make_policy("oat-pow2", dataset, cameras=("front",))
    batch = tiny.batch(policy, dataset)
    session = onnxruntime.InferenceSession(encoder_model(policy))
    names = [port.name for port in session.get_inputs()]
    assert names == ["task", "observation.state", "observation.images.front"]
    read = policy.read(batch)
    inputs = {
        "task": read.task.numpy(),
        "observation.state": batch["observation.state"],
        "observation.images.front": batch["observation.images.front"],
    }
    into, back = session.run(["into", "back"], inputs)
    with torch.inference_mode():
        folded_L2BXD = FrozenDecoder(policy.net.decoder).fold(policy.net.encode(read).pairs, 3)
    wanted_into, wanted_back = folded_L2BXD.transpose(0, 1).flatten(1, 2)
    torch.testing.assert_close(
        torch.from_numpy(into), wanted_into.transpose(1, 2), atol=1e-3, rtol=1e-3
    )
    torch.testing.assert_close(torch.from_numpy(back), wanted_back, atol=1e-3, rtol=1e-3)


def test_facts_are_those_of_the_policy(dataset: Dataset) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    policy = tiny.make_policy("oat-pow2", dataset)
    facts = generation_facts(policy)
    assert facts["endpoints"] == [1, 2, 4, 8]
    assert facts["mask_id"] == policy.net.mask_id
    assert [len(stage["positions"]) for stage in facts["stages"]] == [1, 1, 2, 4]
    session = onnxruntime.InferenceSession(stage_model(policy))
    assert {port.name for port in session.get_inputs()} >= {"symbols", "positions", "bias"}
    assert session.get_outputs()[0].name == "logits"
