"""Packed training, every stage alone and cached generation are one computation."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from oatkit.nn.decoder_backend import freeze
from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.nn.onnx.stage_decoder import OnnxDecoder
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.policies.generation.packing import pack, pack_shifted
from oatkit.types import Schedule
from tests.policies.generation.small_decoder import (
    CONTEXT,
    MASK,
    VOCAB,
    WIDTH,
    assert_cached_is_packed,
    model,
    schedules,
)


def alone(decoder: TokenDecoder, ids_BK: Tensor, schedule: Schedule, stage: int, context) -> Tensor:
    """Logits of stage `stage` (from 0) by running X^(s) and nothing else, (B, g_s, V).

    Block-causal by the words of the paper: blocks in order, both ways inside, then the masks.
    """
    sizes = schedule.block_sizes
    start = (0, *schedule.endpoints)[stage]
    num_masks = sizes[stage] - (sizes[stage - 1] if stage else 0)
    x = torch.cat([ids_BK[:, :start], torch.full((len(ids_BK), num_masks), MASK)], dim=1)
    block = [s for s, size in enumerate(sizes[:stage]) for _ in range(size)]
    block += [stage] * num_masks
    mask = torch.tensor([[b <= a for b in block] for a in block])
    logits = decoder(x, torch.arange(x.shape[1]), mask, context)
    return logits[:, -sizes[stage] :]


@given(schedules, st.integers(1, 3), st.integers(0, 10), st.data())
@settings(max_examples=40)
@torch.inference_mode()
def test_packed_is_alone_is_cached(
    schedule: Schedule, batch_size: int, seed: int, data: st.DataObject
) -> None:
    budget = data.draw(st.integers(1, schedule.num_tokens))
    decoder = model(schedule.num_tokens, seed)
    context = decoder.keys_values(torch.randn(batch_size, CONTEXT, WIDTH).double())
    ids = torch.randint(VOCAB, (batch_size, schedule.num_tokens))
    packing = pack(schedule)
    packed = decoder(packing.inputs(ids, MASK), packing.positions, packing.mask, context)
    assert packed.shape == (batch_size, schedule.num_tokens, VOCAB)

    # the model is no constant: slots differ, and a token that is seen matters
    if schedule.num_tokens > 1:
        assert (packed[:, 0] - packed[:, -1]).abs().max() > 1e-3
    if schedule.calls > 1:
        other = ids.clone()
        other[:, 0] = (other[:, 0] + 1) % VOCAB
        changed = decoder(packing.inputs(other, MASK), packing.positions, packing.mask, context)
        first = schedule.endpoints[0]
        assert torch.equal(changed[:, :first], packed[:, :first])
        assert (changed[:, first:] - packed[:, first:]).abs().amax(dim=(0, 2)).min() > 1e-9

    for stage, (start, end) in enumerate(pairwise((0, *schedule.endpoints))):
        by_itself = alone(decoder, ids, schedule, stage, context)
        torch.testing.assert_close(packed[:, start:end], by_itself)

    assert_cached_is_packed(FrozenDecoder(decoder), decoder, context, schedule, budget, seed)


@given(schedules)
def test_the_mask_against_a_slow_loop(schedule: Schedule) -> None:
    """Slots by name: ("token", block) or ("mask", stage), from the words of the design."""
    slots, sizes = [], schedule.block_sizes
    for stage, size in enumerate(sizes, start=1):
        before = sizes[stage - 2] if stage > 1 else 0
        slots += [("token", stage - 1)] * before + [("mask", stage)] * (size - before)
    packing = pack(schedule)
    assert packing.mask.shape == (schedule.num_tokens, schedule.num_tokens)
    for row, (what, number) in enumerate(slots):
        for column, (seen, seen_number) in enumerate(slots):
            if what == "token":
                sees = seen == "token" and seen_number <= number
            elif seen == "token":
                sees = seen_number <= number - 1
            else:
                sees = seen_number == number
            assert bool(packing.mask[row, column]) == sees, (row, column)
    assert packing.weights.sum() == pytest.approx(1)
    assert packing.is_mask.tolist() == [what == "mask" for what, _ in slots]


def test_the_packed_pass_as_drawn() -> None:
    packing = pack(Schedule.pow2(4))
    assert packing.inputs(torch.tensor([[1, 2, 3, 4]]), MASK).tolist() == [[MASK, 1, 2, MASK]]
    assert packing.positions.tolist() == [0, 0, 1, 2]
    assert packing.weights.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6])
    assert packing.mask.int().tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]


@given(st.integers(0, 6), st.data())
def test_no_balanced_schedule_is_shorter_than_pow2(exponent: int, data: st.DataObject) -> None:
    """Blocks from one token on, none larger than the prefix before it."""
    num_tokens = 2**exponent
    sizes = [1]
    while sum(sizes) < num_tokens:
        most = min(sum(sizes), num_tokens - sum(sizes))
        sizes.append(data.draw(st.integers(1, most)))
    assert len(sizes) >= Schedule.pow2(num_tokens).calls
    assert Schedule.pow2(num_tokens).calls == 1 + exponent


@given(schedules, st.integers(1, 3), st.integers(0, 10), st.data())
@settings(max_examples=20, deadline=None)
@torch.inference_mode()
def test_onnx_runtime_gives_the_same_logits(
    schedule: Schedule, batch_size: int, seed: int, data: st.DataObject
) -> None:
    pytest.importorskip("onnxruntime")
    budget = data.draw(st.integers(1, schedule.num_tokens))
    decoder = model(schedule.num_tokens, seed).float()
    context = decoder.keys_values(torch.randn(batch_size, CONTEXT, WIDTH))
    frozen = freeze(decoder)
    assert isinstance(frozen, OnnxDecoder)
    assert_cached_is_packed(frozen, decoder, context, schedule, budget, seed, rtol=1e-4, atol=1e-4)


@given(schedules)
def test_the_first_stages_are_those_of_a_shorter_schedule(schedule: Schedule) -> None:
    for calls in range(1, schedule.calls + 1):
        shorter = pack(Schedule(schedule.endpoints[:calls])).stages
        for stage, same in zip(pack(schedule).stages, shorter, strict=False):
            assert torch.equal(stage.positions, same.positions)
            assert stage.num_kept == same.num_kept
            assert (stage.mask is None) == (same.mask is None)
            assert stage.mask is None or torch.equal(stage.mask, same.mask)


def test_co_training_shifts_tokens_by_one_mask_that_stays() -> None:
    packing = pack_shifted(Schedule.tokenwise(4))
    assert packing.inputs(torch.tensor([[1, 2, 3, 4]]), MASK).tolist() == [[MASK, 1, 2, 3]]
    assert packing.positions.tolist() == [0, 1, 2, 3]
    assert packing.mask.int().tolist() == torch.ones(4, 4).tril().int().tolist()
    assert [stage.positions.tolist() for stage in packing.stages] == [[0], [1], [2], [3]]
    assert [stage.num_kept for stage in packing.stages] == [1] * 4
