"""The decoder over token slots: what a slot sees, its tied head, its dropout."""

from __future__ import annotations

import torch
from torch import Tensor

from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.nn.transformer import causal_mask

SYMBOLS, OUTPUTS, SLOTS, WIDTH = 7, 5, 4, 8


def make_decoder(dropout: float = 0.0) -> TokenDecoder:
    torch.manual_seed(0)
    decoder = TokenDecoder(
        SYMBOLS, OUTPUTS, SLOTS, width=WIDTH, num_layers=2, num_heads=2, dropout=dropout
    )
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return decoder


def logits(decoder: TokenDecoder, ids_BK: Tensor, context_BSD: Tensor) -> Tensor:
    context = decoder.keys_values(context_BSD)
    found: Tensor = decoder(ids_BK, torch.arange(SLOTS), causal_mask(SLOTS), context)
    return found


@torch.no_grad()
def test_a_slot_sees_the_context_and_no_later_slot() -> None:
    decoder, context = make_decoder(), torch.randn(2, 3, WIDTH)
    ids = torch.tensor([[0, 1, 6, 2], [4, 4, 0, 5]])
    before = logits(decoder, ids, context)
    assert before.shape == (2, SLOTS, OUTPUTS)
    for slot in range(SLOTS):
        changed = ids.clone()
        changed[:, slot] = (changed[:, slot] + 1) % SYMBOLS
        after = logits(decoder, changed, context)
        assert torch.equal(after[:, :slot], before[:, :slot])
        assert (after[:, slot:] - before[:, slot:]).abs().amax(dim=(0, 2)).min() > 1e-4
    other = torch.stack([context[0], context[1].flip(-1)])
    moved = logits(decoder, ids, other)
    assert torch.equal(moved[0], before[0])
    assert (moved[1] - before[1]).abs().max() > 1e-4


@torch.no_grad()
def test_order_comes_from_positions_alone() -> None:
    decoder, context = make_decoder(), make_decoder().keys_values(torch.randn(1, 3, WIDTH))
    ids, order = torch.tensor([[3, 1, 0, 2]]), torch.tensor([2, 0, 3, 1])
    straight = decoder(ids, torch.arange(SLOTS), None, context)
    mixed = decoder(ids[:, order], torch.arange(SLOTS)[order], None, context)
    torch.testing.assert_close(mixed, straight[:, order])
    assert (decoder(ids[:, order], torch.arange(SLOTS), None, context) - mixed).abs().max() > 1e-3


@torch.no_grad()
def test_a_row_both_embeds_a_symbol_and_scores_it() -> None:
    """Twice the row of a symbol that no slot holds: twice what its logit has beside the bias."""
    decoder, context = make_decoder(), torch.randn(1, 3, WIDTH)
    ids = torch.tensor([[0, 1, 2, 6]])
    before = logits(decoder, ids, context)
    decoder.symbols[4] *= 2
    after = logits(decoder, ids, context)
    torch.testing.assert_close(
        after[..., 4] - decoder.bias[4], 2 * (before[..., 4] - decoder.bias[4])
    )
    assert torch.equal(after[..., :4], before[..., :4])


@torch.no_grad()
def test_dropout_belongs_to_the_sample() -> None:
    decoder = make_decoder(dropout=0.5)
    ids, keys = torch.tensor([[0, 1, 2, 3]]).expand(2, -1), torch.tensor([8, 9])
    context = decoder.keys_values(torch.randn(1, 3, WIDTH).expand(2, -1, -1))

    def run(rows: list[int]) -> Tensor:
        picked = [(k[rows], v[rows]) for k, v in context]
        random = SampleRandom(keys[rows])
        found: Tensor = decoder(ids[rows], torch.arange(SLOTS), None, picked, random)
        return found

    together = run([0, 1])
    assert (together[0] - together[1]).abs().max() > 1e-3
    torch.testing.assert_close(torch.cat([run([0]), run([1])]), together)


@torch.no_grad()
def test_logits_are_float32_under_autocast() -> None:
    """In bfloat16 a third of a thousand logits are equal to another one."""
    decoder, context = make_decoder(), torch.randn(2, 3, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        found = logits(decoder, torch.zeros(2, SLOTS, dtype=torch.int64), context)
    assert found.dtype == torch.float32
