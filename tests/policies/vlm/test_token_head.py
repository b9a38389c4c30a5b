"""Action tokens through a backbone: packed, alone and cached passes agree."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.measure.invariants import stages_alone
from oatkit.policies import Policy
from oatkit.policies.generation.packing import pack
from oatkit.policies.generation.token_generation import generate_stages
from oatkit.policies.vlm.backbones.backbone import Context
from oatkit.policies.vlm.token_head import TokenHead, sample_embeddings
from oatkit.types import Schedule
from tests.policies.generation.small_decoder import Recorder
from tests.policies.tiny import seeded
from tests.policies.vlm import tiny_vlm
from tests.policies.vlm.tiny_vlm import families, sample

SCHEDULES = (
    Schedule.tokenwise(8),
    Schedule.pow2(8),
    Schedule.one_shot(8),
    Schedule.blocks(8, 4),
    Schedule((2, 4, 8)),
)
schedules = pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: str(s.endpoints))


def encoded(policy: Policy, dataset: Dataset, size: int = 2) -> tuple[Context, Tensor]:
    observation = tiny_vlm.batch(policy, dataset, size)
    read = policy.read(observation)
    return policy.net.encode(read), policy.tokenizer.encode(observation["action"]).ids


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=3e-4, rtol=1e-4)


@families
@schedules
@torch.no_grad()
def test_packed_is_alone_is_cached(
    family: str, schedule: Schedule, autoregressive: dict[str, Policy], dataset: Dataset
) -> None:
    policy = autoregressive[family]
    context, ids = encoded(policy, dataset)
    packed = policy.net.logits(ids, schedule, context)

    for logits, end, size in zip(
        stages_alone(policy, context, ids, schedule),
        schedule.endpoints,
        schedule.block_sizes,
        strict=True,
    ):
        close(logits, packed[:, end - size : end])

    recorder = Recorder(policy.net.start(context, len(ids), 8))
    uniform = torch.rand(len(ids), 8, generator=seeded())
    stages = policy.net.pack(schedule, policy.device).stages
    found = generate_stages(recorder, stages, uniform, mask_id=policy.net.mask_id)
    sampled = torch.cat([stage.ids for stage in found], dim=1)
    close(torch.cat(recorder.logits, dim=1), policy.net.logits(sampled, schedule, context))


def test_singleton_blocks_are_causal() -> None:
    mask = pack(Schedule.tokenwise(6)).mask[1:, 1:]
    assert torch.equal(mask, torch.ones_like(mask).tril())


@families
@schedules
@torch.no_grad()
def test_no_slot_sees_its_own_block(
    family: str, schedule: Schedule, autoregressive: dict[str, Policy], dataset: Dataset
) -> None:
    """And the context does not notice what is spoken after it."""
    policy = autoregressive[family]
    context, ids = encoded(policy, dataset)
    pairs = [(keys.clone(), values.clone()) for keys, values in context.pairs]
    before = policy.net.logits(ids, schedule, context)
    start = 0
    for end in schedule.endpoints:
        changed = ids.clone()
        changed[:, start:end] = (changed[:, start:end] + 1) % policy.tokenizer.vocab_size
        after = policy.net.logits(changed, schedule, context)
        assert torch.equal(after[:, :end], before[:, :end])
        if end < schedule.num_tokens:
            assert (after[:, end:] - before[:, end:]).abs().max() > 1e-4
        start = end
    for (keys, values), (old_keys, old_values) in zip(context.pairs, pairs, strict=True):
        assert torch.equal(keys, old_keys)
        assert torch.equal(values, old_values)


@families
@torch.no_grad()
def test_shifted_is_cached(family: str, cotrained: dict[str, Policy], dataset: Dataset) -> None:
    """MASK, T_1 .. T_7 in one causal pass is what sampling from a co-trained model feeds."""
    policy = cotrained[family]
    read, _ = sample(policy, dataset)
    context = policy.net.encode(read)
    schedule = Schedule.tokenwise(8)
    recorder = Recorder(policy.net.start(context, 2, 8))
    stages = policy.net.pack(schedule, policy.device).stages
    found = generate_stages(recorder, stages, torch.rand(2, 8), mask_id=policy.net.mask_id)
    ids = torch.cat([stage.ids for stage in found], dim=1)
    wanted = policy.net.logits(ids, schedule, context)
    torch.testing.assert_close(torch.cat(recorder.logits, dim=1), wanted, atol=3e-4, rtol=1e-4)


def test_new_embeddings_are_distributed_as_those_of_text() -> None:
    torch.manual_seed(0)
    mixing = torch.randn(6, 6)
    known = torch.randn(4000, 6) @ mixing + torch.arange(6.0)
    rows = sample_embeddings(known, 4000, spread=1.0)
    torch.testing.assert_close(rows.mean(dim=0), known.mean(dim=0), atol=0.3, rtol=0)
    torch.testing.assert_close(rows.t().cov(), known.t().cov(), atol=1.5, rtol=0.1)


def test_logits_are_of_action_tokens_alone(checkpoints: dict[str, Path], dataset: Dataset) -> None:
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints["qwen3-vl"], "fast", dataset)
    context, _ = encoded(policy, dataset)
    ids = torch.zeros(2, 4, dtype=torch.int64)
    logits = policy.net.logits(ids, Schedule.tokenwise(4), context)
    assert logits.shape == (2, 4, policy.tokenizer.vocab_size + 1)


def test_logits_are_float32_under_autocast_too() -> None:
    """Autocast would multiply in bfloat16, in which near logits are equal."""
    head = TokenHead(torch.randn(32, 16), vocab_size=8, has_end=False, is_shifted=False)
    hidden = torch.randn(1, 2, 16).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = head.scores(hidden)
    torch.testing.assert_close(found, hidden.float() @ head.rows[:8].t(), rtol=0, atol=0)
