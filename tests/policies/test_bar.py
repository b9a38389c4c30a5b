"""Packed training, every stage alone and cached generation are one computation."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from oatkit.nn.decoder_backend import Frozen, freeze, has_onnx
from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.nn.onnx.stage_decoder import OnnxDecoder
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.policies.generation import blockwise as bar
from oatkit.policies.light.light_net import cached_feed
from oatkit.types import Schedule, Tokens

VOCAB, MASK, WIDTH, CONTEXT = 11, 11, 16, 3

schedules = st.lists(st.integers(1, 4), min_size=1, max_size=5).map(
    lambda sizes: Schedule(tuple(sum(sorted(sizes)[: i + 1]) for i in range(len(sizes))))
)


def model(num_positions: int, seed: int) -> TokenDecoder:
    """Weights large enough that everything a slot sees shows in its logits."""
    torch.manual_seed(seed)
    decoder = TokenDecoder(
        VOCAB + 1, VOCAB, num_positions, width=WIDTH, num_layers=2, num_heads=2
    ).double()
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return decoder.eval()


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
    packing = bar.pack(schedule)
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


def test_without_onnx_runtime_torch_generates(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"onnx": "1.19.0", "onnxruntime": "1.24.1"}
    monkeypatch.setattr("oatkit.nn.decoder_backend.version", lambda name: found[name])
    assert has_onnx()
    found["onnxruntime"] = "1.9.0"
    assert not has_onnx()
    assert isinstance(freeze(model(4, 0).float()), FrozenDecoder)


def assert_cached_is_packed(
    frozen: Frozen,
    decoder: TokenDecoder,
    context: list[tuple[Tensor, Tensor]],
    schedule: Schedule,
    budget: int,
    seed: int,
    **tolerance: float,
) -> None:
    """Cached generation, up to a budget: teacher-forced by what it draws itself."""
    batch_size = len(context[0][0])
    cached, fed = cached_feed(frozen, context, batch_size, schedule), []

    def feed(inputs: Tensor, stage: bar.Stage) -> Tensor:
        fed.append(cached(inputs, stage))
        return fed[-1]

    part = bar.covering(schedule, budget)
    drawn = bar.uniforms(torch.Generator().manual_seed(seed), batch_size, schedule.num_tokens)
    stages = list(bar.generate(feed, part, drawn, mask_id=MASK))
    assert len(stages) == schedule.calls_for(budget) == len(fed)
    generated = torch.cat([stage.ids for stage in stages], dim=1)
    packing = bar.pack(part)
    again = decoder(packing.inputs(generated, MASK), packing.positions, packing.mask, context)
    torch.testing.assert_close(torch.cat(fed, dim=1), again, **tolerance)


@given(schedules)
def test_the_mask_against_a_slow_loop(schedule: Schedule) -> None:
    """Slots by name: ("token", block) or ("mask", stage), from the words of the design."""
    slots, sizes = [], schedule.block_sizes
    for stage, size in enumerate(sizes, start=1):
        before = sizes[stage - 2] if stage > 1 else 0
        slots += [("token", stage - 1)] * before + [("mask", stage)] * (size - before)
    packing = bar.pack(schedule)
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


def test_what_generation_packs_first_training_can_use() -> None:
    schedule = Schedule((1, 2, 4, 9))
    with torch.inference_mode():
        bar.pack(schedule)
    logits = torch.randn(2, 9, VOCAB, requires_grad=True)
    tokens = Tokens.full(torch.zeros(2, 9, dtype=torch.int64))
    bar.bar_loss(logits, tokens, schedule, None).backward()
    assert logits.grad is not None


def test_the_packed_pass_as_drawn() -> None:
    packing = bar.pack(Schedule.pow2(4))
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


@given(schedules, st.integers(1, 4))
def test_the_loss_against_a_slow_loop(schedule: Schedule, batch_size: int) -> None:
    torch.manual_seed(0)
    logits = torch.randn(batch_size, schedule.num_tokens, VOCAB)
    ids = torch.randint(VOCAB, (batch_size, schedule.num_tokens))
    log = logits.log_softmax(-1)
    rows = []
    for row in range(batch_size):
        blocks = [
            sum(-log[row, k, ids[row, k]] for k in range(start, end)) / (end - start)
            for start, end in pairwise((0, *schedule.endpoints))
        ]
        rows.append(sum(blocks) / len(blocks))
    loss = bar.bar_loss(logits, Tokens.full(ids), schedule, None)
    torch.testing.assert_close(loss, sum(rows) / len(rows))


def test_rows_of_different_length_end_with_a_symbol() -> None:
    """The mean over a row's own length and its end slot; a row of full length has no end slot."""
    torch.manual_seed(0)
    logits = torch.randn(2, 4, VOCAB + 1)
    tokens = Tokens(torch.tensor([[3, 0, 0, 0], [4, 5, 6, 7]]), torch.tensor([1, 4]))
    log = logits.log_softmax(-1)
    short = -(log[0, 0, 3] + log[0, 1, VOCAB]) / 2
    full = -sum(log[1, k, 4 + k] for k in range(4)) / 4
    loss = bar.bar_loss(logits, tokens, Schedule.tokenwise(4), VOCAB)
    torch.testing.assert_close(loss, (short + full) / 2)


def test_generation_ends_when_every_row_has() -> None:
    plan = torch.tensor([[1, VOCAB, 2, 2], [3, 4, VOCAB, 2]])
    calls = []

    def feed(inputs: Tensor, stage: bar.Stage) -> Tensor:
        calls.append(stage)
        return torch.nn.functional.one_hot(plan[:, len(calls) - 1, None], VOCAB + 1) * 100.0

    drawn = torch.rand(2, 4)
    stages = list(bar.generate(feed, Schedule.tokenwise(4), drawn, mask_id=VOCAB + 1, end_id=VOCAB))
    assert len(stages) == 3
    tokens = bar.ended(torch.cat([stage.ids for stage in stages], dim=1), VOCAB)
    assert tokens.lengths.tolist() == [1, 2]
    assert tokens.ids.tolist() == [[1, 0, 0], [3, 4, 0]]


def test_entropy_in_bits() -> None:
    assert bar.entropy_bits(torch.zeros(1, 1, 8)).item() == pytest.approx(3)
    assert bar.entropy_bits(torch.tensor([[[0.0, -math.inf]]]).clamp(-1e4)).item() == 0


def test_rows_with_their_own_generators_draw_as_if_alone() -> None:
    def generators() -> list[torch.Generator]:
        return [torch.Generator().manual_seed(seed) for seed in (5, 6, 7)]

    together = bar.uniforms(generators(), 3, 4)
    apart = torch.cat([bar.uniforms([generator], 1, 4) for generator in generators()])
    assert torch.equal(together, apart)
    with pytest.raises(ValueError, match="there are 3 generators for 2 rows"):
        bar.uniforms(generators(), 2, 4)
