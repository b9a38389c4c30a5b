"""A policy that acts by captured calls acts as the plain one does."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from oatkit.data import Dataset
from oatkit.nn.captured_call import CapturedCall, GraphPool
from oatkit.policies import Policy, Prediction
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.key_value_cache import GrowingCache
from oatkit.policies.vlm.token_head import full_mask
from tests.nn.graph_safety import GraphSafe
from tests.policies.tiny import seeded
from tests.policies.vlm import tiny_vlm
from tests.policies.vlm.tiny_vlm import families


def rows_of(observation: dict[str, Any], *rows: int) -> dict[str, Any]:
    return {
        key: [values[row] for row in rows] if isinstance(values, list) else values[list(rows)]
        for key, values in observation.items()
    }


def predict_all(policy: Policy, batches: list[dict[str, Any]]) -> list[Prediction]:
    """By every head, all batches."""
    found = []
    for head in policy.heads:
        policy.head = head
        found += [policy.predict_action_chunk(batch, generator=seeded()) for batch in batches]
    return found


@families
@pytest.mark.parametrize("objective", ["vlm-ar", "vlm-tc"])
def test_a_policy_acts_as_without_graphs(
    family: str, objective: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """Both heads, and the buffers of one observation with what the next one brings."""
    policy = tiny_vlm.make_policy(objective, checkpoints[family], "oat-pow2", dataset)
    observation = tiny_vlm.batch(policy, dataset, 3)
    batches = [rows_of(observation, *rows) for rows in ((0, 1), (2, 0), (1,), (0, 1))]
    longer = batches[1] | {"task": ["open the door, then close the door"] * 2}
    plain = predict_all(policy, [*batches, longer])
    policy.net.use_graphs()
    captured = predict_all(policy, [*batches, longer])
    for found, wanted in zip(captured, plain, strict=True):
        assert np.array_equal(found.ids, wanted.ids)
        np.testing.assert_allclose(found.chunk, wanted.chunk, rtol=1e-3, atol=1e-4)


def test_both_heads_capture_into_one_pool_and_drop_old_sizes(
    checkpoints: dict[str, Path], dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU a pool for every graph, and every size that was ever asked for, would fill it."""
    pools: set[GraphPool] = set()
    calls: list[weakref.ref[CapturedCall]] = []
    capture = GraphPool.capture

    def spy(pool: GraphPool, *given: Any) -> CapturedCall:
        call = capture(pool, *given)
        pools.add(pool)
        calls.append(weakref.ref(call))
        return call

    monkeypatch.setattr(GraphPool, "capture", spy)
    policy = tiny_vlm.make_policy("vlm-tc", checkpoints["qwen3-vl"], "oat-pow2", dataset)
    policy.net.use_graphs(num_sizes=1)
    observation = tiny_vlm.batch(policy, dataset, 2)
    gc.disable()  # what is dropped is free at once, not when Python next looks for cycles
    try:
        predict_all(policy, [rows_of(observation, 0)])
        num_first = len(calls)
        predict_all(policy, [observation])
        assert [call() is None for call in calls] == [True] * num_first + [False] * num_first
    finally:
        gc.enable()
    assert len(pools) == 1


@families
@torch.no_grad()
def test_nothing_in_a_stage_reads_numbers_from_tensors(
    family: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """On a GPU it would fail to be captured, or wait for the device in every layer."""
    # as on a GPU: ONNX Runtime runs only float32
    options = BackboneOptions(dtype="bfloat16", freeze_language=True)
    checkpoint = checkpoints[family]
    policy = tiny_vlm.make_policy("vlm-ar", checkpoint, "oat-pow2", dataset, backbone=options)
    net = policy.net
    assert net.tokens is not None
    context = net.encode(policy.read(tiny_vlm.batch(policy, dataset, 2)))
    inputs, positions = torch.zeros(2, 3, dtype=torch.int64), torch.arange(3)
    stage = (net.backbone, inputs, positions, full_mask(inputs, 0), context)
    cache = GrowingCache(context.pairs, 3)
    wanted = net.tokens.stage(*stage, cache)  # what is made once is made
    with GraphSafe():
        found = net.tokens.stage(*stage, cache)
    assert torch.equal(found, wanted)
