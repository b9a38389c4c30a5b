"""`vlm-ar`: packed, alone and cached passes agree; budgets, padding, vocabulary."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.measure.invariants import stages_alone
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import VlmPolicy
from oatkit.policies.generation.blockwise import Feed, generate, pack
from oatkit.policies.vlm.backbones.backbone import Context
from oatkit.policies.vlm.token_head import new_rows
from oatkit.types import Schedule, Tokens
from oatkit.types.observation_keys import IMAGES, STATE
from tests.policies import tiny
from tests.policies.vlm import tiny_vlm

SCHEDULES = (
    Schedule.tokenwise(8),
    Schedule.pow2(8),
    Schedule.one_shot(8),
    Schedule.blocks(8, 4),
    Schedule((2, 4, 8)),
)
both = pytest.mark.parametrize("family", tiny_vlm.BACKBONES)
schedules = pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: str(s.endpoints))


@pytest.fixture(scope="module")
def policies(checkpoints: dict[str, Path], dataset: Dataset) -> dict[str, VlmPolicy]:
    return {
        family: tiny_vlm.make_policy("vlm-ar", checkpoints[family], "oat-pow2", dataset)
        for family in checkpoints
    }


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def encoded(policy: VlmPolicy, dataset: Dataset, size: int = 2) -> tuple[Context, Tensor]:
    observation = tiny_vlm.batch(policy, dataset, size)
    read = policy.read(observation)
    return policy.net.encode(read), policy.tokenizer.encode(observation["action"]).ids


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=3e-4, rtol=1e-4)


@both
@schedules
@torch.no_grad()
def test_packed_is_alone_is_cached(
    family: str, schedule: Schedule, policies: dict[str, VlmPolicy], dataset: Dataset
) -> None:
    policy = policies[family]
    context, ids = encoded(policy, dataset)
    packed = policy.net.logits(ids, schedule, context)

    for logits, end, size in zip(
        stages_alone(policy, context, ids, schedule),
        schedule.endpoints,
        schedule.block_sizes,
        strict=True,
    ):
        close(logits, packed[:, end - size : end])

    fed: list[Tensor] = []
    feed = policy.net.start(context, schedule)
    forced = forcing(feed, fed)
    uniform = torch.rand(len(ids), 8, generator=seeded())
    drawn = torch.cat(
        [s.ids for s in generate(forced, schedule, uniform, mask_id=policy.net.mask_id)], dim=1
    )
    close(torch.cat(fed, dim=1), policy.net.logits(drawn, schedule, context))


def forcing(feed: Feed, fed: list[Tensor]) -> Feed:
    def call(inputs_BG: Tensor, stage: Any) -> Tensor:
        fed.append(feed(inputs_BG, stage))
        return fed[-1]

    return call


def test_singleton_blocks_are_causal() -> None:
    mask = pack(Schedule.tokenwise(6)).mask[1:, 1:]
    assert torch.equal(mask, torch.ones_like(mask).tril())


@both
@schedules
@torch.no_grad()
def test_no_slot_sees_its_own_block(
    family: str, schedule: Schedule, policies: dict[str, VlmPolicy], dataset: Dataset
) -> None:
    """And the context does not notice what is spoken after it."""
    policy = policies[family]
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


@pytest.mark.parametrize("family", [*tiny_vlm.BACKBONES, "smolvlm"])
@pytest.mark.parametrize("text", ["open the door", "a far longer instruction than the other one"])
def test_a_batch_is_its_rows(
    family: str, text: str, policies: dict[str, VlmPolicy], dataset: Dataset
) -> None:
    policy = policies[family]
    observation = tiny_vlm.batch(policy, dataset, 3) | {"task": [text, "close it", text]}
    generators = [seeded(i) for i in range(3)]
    together = policy.predict_action_chunk(observation, generator=generators)
    for i in range(3):
        alone = policy.predict_action_chunk(tiny.row(observation, i), generator=[seeded(i)])
        np.testing.assert_array_equal(alone.ids[0], together.ids[i])
        np.testing.assert_allclose(alone.entropy_bits[0], together.entropy_bits[i], atol=1e-3)


@pytest.mark.parametrize("family", [*tiny_vlm.BACKBONES, "smolvlm"])
def test_what_is_observed_matters(
    family: str, policies: dict[str, VlmPolicy], dataset: Dataset
) -> None:
    policy = policies[family]
    observation = tiny.row(tiny_vlm.batch(policy, dataset), 0)
    found = policy.predict_action_chunk(observation, generator=seeded())
    key = f"{IMAGES}front"
    for change in (
        {STATE: observation[STATE] + 1},
        {"task": ["do something else"]},
        {key: 255 - observation[key]},
        {key: None},
    ):
        other = policy.predict_action_chunk(observation | change, generator=seeded())
        assert np.abs(other.entropy_bits - found.entropy_bits).max() > 1e-4, change.keys()


@both
def test_budgets_nest(family: str, policies: dict[str, VlmPolicy], dataset: Dataset) -> None:
    policy = policies[family]
    observation = tiny_vlm.batch(policy, dataset)
    full = policy.predict_action_chunk(observation, generator=seeded())
    assert 0 <= full.ids.min() <= full.ids.max() < policy.tokenizer.vocab_size
    np.testing.assert_array_equal(full.chunk, policy.tokenizer.decode(full.ids))
    for budget in (1, 2, 3, 5, 8):
        found = policy.predict_action_chunk(observation, budget=budget, generator=seeded())
        assert found.budget.tolist() == [budget] * 3
        assert found.calls.tolist() == [policy.schedule.calls_for(budget)] * 3
        np.testing.assert_array_equal(found.ids[:, :budget], full.ids[:, :budget])
        np.testing.assert_array_equal(found.chunk, policy.tokenizer.decode(full.ids, budget=budget))


def test_auto_and_deadlines_as_in_the_light_policy(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints["qwen3-vl"], "oat-pow2", dataset)
    observation = tiny_vlm.batch(policy, dataset, 5)
    with pytest.raises(ValueError, match="budget 'auto' has no thresholds"):
        policy.predict_action_chunk(observation, budget="auto")
    policy.rows_at_once = 2
    read = policy.read(observation)
    policy.calibrate(read, torch.from_numpy(observation["action"]), seeded())
    assert policy.auto is not None
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    assert set(found.budget.tolist()) <= {1, 2, 4, 8}
    assert policy.predict_action_chunk(observation, deadline_ms=1e6).budget[0] == 8
    assert policy.predict_action_chunk(observation, deadline_ms=1e-3).budget[0] == 1


def test_the_tokens_of_a_cotrained_policy_stop_early_too(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy("vlm-tc", checkpoints["qwen3-vl"], "oat-pow2", dataset)
    observation = tiny_vlm.batch(policy, dataset)
    read = policy.read(observation)
    policy.calibrate(read, torch.from_numpy(observation["action"]), seeded())
    assert policy.auto is not None
    with pytest.raises(ValueError, match="flow expert, which has neither budgets"):
        policy.predict_action_chunk(observation, budget="auto")
    policy.head = "tokens"
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    assert found.budget.tolist() == found.calls.tolist()


def test_a_context_that_is_too_long_is_refused(
    checkpoints: dict[str, Path], dataset: Dataset, tmp_path: Path
) -> None:
    """Room is kept for the longest instruction."""
    short = shutil.copytree(checkpoints["qwen3-vl"], tmp_path / "short")
    config = json.loads((short / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = 128 + 8 + 4
    (short / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="an instruction up to 128 and tokens 8, more than the 14"):
        tiny_vlm.make_policy("vlm-ar", short, "oat-pow2", dataset)


@both
def test_fast_ends_where_it_says_so(
    family: str, checkpoints: dict[str, Path], dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is drawn like any id; what follows it is not decoded."""
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints[family], "fast", dataset)
    observation = tiny_vlm.batch(policy, dataset)
    tokens, end = policy.tokenizer.encode(torch.from_numpy(observation["action"])), 300
    assert policy.net.end_id == end
    ends = torch.full((3, 1), end)
    told = torch.cat([tokens.ids, ends], dim=1)
    told[torch.arange(told.shape[1]) >= tokens.lengths[:, None]] = end
    start, width = policy.start, told.shape[1]

    def telling(context: Context, batch_size: int, schedule: Schedule) -> Feed:
        feed, slot = start(context, batch_size, schedule), -1

        def call(inputs_BG: Tensor, stage: Any) -> Tensor:
            nonlocal slot
            slot += 1
            logits = feed(inputs_BG, stage)
            assert logits.shape[-1] == end + 1
            wanted = told[:, min(slot, width - 1)]
            return torch.full_like(logits, -99).index_put(
                (torch.arange(3), wanted * 0, wanted), torch.tensor(99.0)
            )

        return call

    monkeypatch.setattr(policy, "start", telling)
    found = policy.predict_action_chunk(observation)
    assert found.budget.tolist() == tokens.lengths.tolist()
    assert found.calls.tolist() == (tokens.lengths + 1).clamp(max=24).tolist()
    np.testing.assert_array_equal(found.chunk, policy.tokenizer.decode(tokens))


def test_one_frame_at_a_time_is_a_batch_with_history(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints["qwen3-vl"], "oat-pow2", dataset, history=2)
    key = f"{IMAGES}front"
    wanted = dataset.chunks(tiny.HORIZON, history=2, cameras=("front",)).batch([0, 1, 2])
    policy.reset()
    for frame in range(3):
        now = {k: wanted[k][frame, -1] for k in (STATE, key)} | {"task": wanted["task"][frame]}
        if frame == 1:
            policy.observe(now)
            continue
        found = policy.predict_action_chunk(now, generator=seeded(frame))
        whole = policy.predict_action_chunk(tiny.row(wanted, frame), generator=seeded(frame))
        np.testing.assert_allclose(found.entropy_bits, whole.entropy_bits[0], atol=1e-4)


# The vocabulary


@both
def test_the_vocabulary_grows(family: str, checkpoints: dict[str, Path], dataset: Dataset) -> None:
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints[family], "fast", dataset)
    text, size = policy.net.backbone.processor.tokenizer, policy.tokenizer.vocab_size
    names = [f"<|action_{i}|>" for i in range(size)] + ["<|action_end|>", "<|action_mask|>"]
    ids = text.convert_tokens_to_ids(names)
    assert ids == list(range(ids[0], ids[0] + size + 2))
    assert text(names[3] + names[-1], add_special_tokens=False)["input_ids"] == [ids[3], ids[-1]]
    assert policy.net.tokens.rows.shape == (size + 2, policy.net.backbone.width)
    with pytest.raises(ValueError, match=r"vocabulary already has '<\|action_0\|>'"):
        policy.net.backbone.processor.add_action_tokens(4, has_end=False)


def test_new_rows_look_like_the_known() -> None:
    torch.manual_seed(0)
    mixing = torch.randn(6, 6)
    known = torch.randn(4000, 6) @ mixing + torch.arange(6.0)
    rows = new_rows(known, 4000, spread=1.0)
    torch.testing.assert_close(rows.mean(dim=0), known.mean(dim=0), atol=0.3, rtol=0)
    torch.testing.assert_close(rows.t().cov(), known.t().cov(), atol=1.5, rtol=0.1)


def test_logits_are_of_action_tokens_alone(checkpoints: dict[str, Path], dataset: Dataset) -> None:
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints["qwen3-vl"], "fast", dataset)
    context, _ = encoded(policy, dataset)
    ids = torch.zeros(2, 4, dtype=torch.int64)
    logits = policy.net.logits(ids, Schedule.tokenwise(4), context)
    assert logits.shape == (2, 4, policy.tokenizer.vocab_size + 1)


@both
def test_tokens_are_learnt(family: str, checkpoints: dict[str, Path], dataset: Dataset) -> None:
    """And every part of the policy learns."""
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints[family], "oat-pow2", dataset)
    observation = tiny_vlm.batch(policy, dataset, 4)
    read = policy.read(observation)
    actions = torch.from_numpy(observation["action"])
    tokens = policy.tokenizer.encode(actions)
    optimizer = torch.optim.Adam(policy.net.parameters(), 3e-3)
    losses = []
    for _ in range(12):
        random = SampleRandom(sample_keys(0, 0, torch.arange(4)))
        loss = policy.loss(read, tokens, actions, random).total
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    unused = [name for name, p in policy.net.named_parameters() if p.grad is None]
    assert unused == []


@pytest.mark.parametrize("kind", ["fast", "bin", "quest"])
def test_a_short_row_is_trained_on_its_own_length(
    kind: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints["smolvlm"], kind, dataset)
    observation = tiny_vlm.batch(policy, dataset)
    read = policy.read(observation)
    actions = torch.from_numpy(observation["action"])
    tokens: Tokens = policy.tokenizer.encode(actions)
    keys = sample_keys(0, 0, torch.arange(3))
    together = policy.loss(read, tokens, actions, SampleRandom(keys)).total
    rows = [
        policy.loss(
            block,
            Tokens(tokens.ids[i : i + 1], tokens.lengths[i : i + 1]),
            actions[i : i + 1],
            SampleRandom(keys[i : i + 1]),
        ).total
        for i, block in enumerate(read.split(1))
    ]
    torch.testing.assert_close(together, torch.stack(rows).mean(), atol=1e-3, rtol=1e-3)
