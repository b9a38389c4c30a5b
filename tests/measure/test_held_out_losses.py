"""Losses on held-out chunks: those of the heads, whoever computes which block."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

import oatkit
from oatkit.data import Dataset
from oatkit.measure.held_out_losses import measure_losses
from oatkit.measure.policy_metrics import observations_to_measure
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import Policy
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.types import Tokens
from tests.policies import tiny
from tests.policies.vlm import tiny_vlm


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    return oatkit.open_dataset(tiny.write_dataset(folder / "npz"), cache_dir=folder / "cache")


def test_accuracy_and_surprise_are_those_of_the_logits(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat", dataset)
    policy.rows_at_once = 3
    observations, actions_BTA, _ = observations_to_measure(policy, dataset, 7)
    tokens = policy.tokenizer.encode(actions_BTA)
    found = measure_losses(policy, observations, tokens, actions_BTA)
    with torch.inference_mode():
        logits_BKV = policy.logits(observations, tokens.ids, policy.schedule)
    chances_BKV = logits_BKV.double().softmax(dim=-1)
    surprise_BK = -chances_BKV.gather(-1, tokens.ids[..., None])[..., 0].log2()
    for number, slot in enumerate(found.slots):
        right = (logits_BKV[:, number].argmax(dim=-1) == tokens.ids[:, number]).double()
        assert slot.share == 1
        assert slot.accuracy == pytest.approx(float(right.mean()))
        assert slot.loss_bits == pytest.approx(float(surprise_BK[:, number].mean()), rel=1e-4)
    assert found.tokens == pytest.approx(float(surprise_BK.mean()) * math.log(2), rel=1e-4)


def by_two(compute: Callable[[int], Tensor], count: int) -> list[Tensor]:
    """Blocks are computed as by two processes: the second one first, all blocks of one shape."""
    found = {number: compute(number) for number in (*range(1, count, 2), *range(0, count, 2))}
    assert len({tensor.shape for tensor in found.values()}) == 1
    return [found[number] for number in range(count)]


@pytest.fixture(scope="module")
def cotrained(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    """A `vlm-tc` policy that reads three chunks at once."""
    size = ScratchSize(width=16, num_layers=1, vision_width=16, vision_layers=1)
    path = write_scratch("smolvlm", tmp_path_factory.mktemp("scratch") / "b", size, tiny.TASKS)
    policy = tiny_vlm.make_policy("vlm-tc", path, "oat-pow2", dataset)
    policy.rows_at_once = 3  # type: ignore[misc]
    return policy


def test_processes_that_share_the_blocks_find_the_same(cotrained: Policy, dataset: Dataset) -> None:
    observations, actions_BTA, is_pad_BT = observations_to_measure(cotrained, dataset, 8)
    tokens = cotrained.tokenizer.encode(actions_BTA)
    held_out = (cotrained, observations, tokens, actions_BTA, is_pad_BT)
    assert measure_losses(*held_out, by_two) == measure_losses(*held_out)


def test_both_heads_read_one_context(
    cotrained: Policy, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backbone is nearly all of the time of an evaluation."""
    observations, actions_BTA, is_pad_BT = observations_to_measure(cotrained, dataset, 7)
    tokens = cotrained.tokenizer.encode(actions_BTA)
    encoded: list[int] = []
    real = cotrained.net.encode

    def encode(block: Observations) -> Any:
        encoded.append(len(block))
        return real(block)

    monkeypatch.setattr(cotrained.net, "encode", encode)
    found = measure_losses(cotrained, observations, tokens, actions_BTA, is_pad_BT)
    assert encoded == [3, 3, 1]
    monkeypatch.undo()
    losses = {"tokens": 0.0, "flow": 0.0}
    for number, block in enumerate(observations.split(3)):
        part = slice(3 * number, 3 * number + len(block))
        random = SampleRandom(sample_keys(0, number, torch.arange(len(block))))
        own = Tokens(tokens.ids[part], tokens.lengths[part])
        is_pad = torch.from_numpy(is_pad_BT[part])
        with torch.no_grad():
            loss = cotrained.loss(block, own, actions_BTA[part], random, is_pad)
        losses["tokens"] += len(block) * float(loss.parts["token_loss"]) / 7
        losses["flow"] += len(block) * float(loss.parts["flow_loss"]) / 7
    assert found.tokens == pytest.approx(losses["tokens"], rel=1e-5)
    assert found.flow == pytest.approx(losses["flow"], rel=1e-5)
