"""A frozen decoder fed piece by piece against one pass of the decoder."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.nn.transformer import causal_mask

SYMBOLS, SLOTS, WIDTH, CONTEXT = 7, 6, 8, 3
Pairs = list[tuple[Tensor, Tensor]]


@pytest.fixture
def decoder() -> TokenDecoder:
    torch.manual_seed(0)
    found = TokenDecoder(SYMBOLS, SYMBOLS - 1, SLOTS, width=WIDTH, num_layers=2, num_heads=2)
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return found.double().eval()


@torch.inference_mode()
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("sizes", [(1,) * SLOTS, (2, 1, 3), (SLOTS,)])
def test_pieces_are_one_pass(
    batch_size: int, sizes: tuple[int, ...], decoder: TokenDecoder
) -> None:
    context = decoder.keys_values(torch.randn(batch_size, CONTEXT, WIDTH).double())
    ids, positions = torch.randint(SYMBOLS, (batch_size, SLOTS)), torch.arange(SLOTS)
    wanted = decoder(ids, positions, causal_mask(SLOTS), context)
    generation = FrozenDecoder(decoder).start(context, batch_size, SLOTS)
    found, start = [], 0
    for size in sizes:
        piece = slice(start, start + size)
        mask = causal_mask(SLOTS)[piece, : start + size]
        found.append(generation.feed(ids[:, piece], positions[piece], mask, size))
        start += size
    torch.testing.assert_close(torch.cat(found, dim=1), wanted)


@torch.inference_mode()
def test_slots_that_are_not_kept_are_forgotten(decoder: TokenDecoder) -> None:
    context = decoder.keys_values(torch.randn(2, CONTEXT, WIDTH).double())
    ids, positions = torch.randint(SYMBOLS, (2, 3)), torch.arange(3)
    wanted = decoder(ids, positions, None, context)
    generation = FrozenDecoder(decoder).start(context, 2, SLOTS)
    generation.feed(torch.randint(SYMBOLS, (2, 2)), positions[:2], None, 0)
    torch.testing.assert_close(generation.feed(ids, positions, None, 3), wanted)


@torch.inference_mode()
def test_a_context_is_folded_once(decoder: TokenDecoder) -> None:
    """Scores and values of the folded context are those of the cross-attention, slot by slot."""
    context: Pairs = decoder.keys_values(torch.randn(2, CONTEXT, WIDTH).double())
    frozen = FrozenDecoder(decoder)
    folded = frozen.fold(context, 2)
    assert folded.shape == (2, 2, 2, 2 * CONTEXT, WIDTH)
    h = torch.randn(WIDTH).double()
    for layer, (keys, values) in enumerate(context):
        reading = decoder.reading[layer]
        for row in range(2):
            for head in range(2):
                part = slice(head * WIDTH // 2, (head + 1) * WIDTH // 2)
                query = reading.query.weight[part] @ h
                for slot in range(CONTEXT):
                    into, back = folded[layer, :, row, head * CONTEXT + slot]
                    score = query @ keys[row, head, slot] / (WIDTH // 2) ** 0.5
                    torch.testing.assert_close(h @ into, score)
                    value = reading.out.weight[:, part] @ values[row, head, slot]
                    torch.testing.assert_close(back, value)


@torch.inference_mode()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_logits_of_half_the_digits_are_float32(dtype: torch.dtype, decoder: TokenDecoder) -> None:
    half = decoder.to(dtype)
    context = half.keys_values(torch.randn(1, CONTEXT, WIDTH).to(dtype))
    ids, positions = torch.zeros(1, 2, dtype=torch.int64), torch.arange(2)
    found = FrozenDecoder(half).start(context, 1, SLOTS).feed(ids, positions, None, 2)
    assert found.dtype == torch.float32
    assert half(ids, positions, None, context).dtype == torch.float32
