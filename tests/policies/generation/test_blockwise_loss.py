"""The loss of block-wise autoregression against slow loops."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.policies.generation.blockwise_loss import blockwise_loss, fit_to_schedule, targets
from oatkit.policies.generation.packing import pack
from oatkit.types import Schedule, Tokens
from tests.policies.generation.small_decoder import VOCAB, schedules


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
    loss = blockwise_loss(logits, Tokens.full(ids), schedule, None)
    torch.testing.assert_close(loss, sum(rows) / len(rows))


def test_rows_of_different_length_end_with_a_symbol() -> None:
    """The mean over a row's own length and its end slot; a row of full length has no end slot."""
    torch.manual_seed(0)
    logits = torch.randn(2, 4, VOCAB + 1)
    tokens = Tokens(torch.tensor([[3, 0, 0, 0], [4, 5, 6, 7]]), torch.tensor([1, 4]))
    log = logits.log_softmax(-1)
    short = -(log[0, 0, 3] + log[0, 1, VOCAB]) / 2
    full = -sum(log[1, k, 4 + k] for k in range(4)) / 4
    loss = blockwise_loss(logits, tokens, Schedule.tokenwise(4), VOCAB)
    torch.testing.assert_close(loss, (short + full) / 2)


def test_what_generation_packs_first_training_can_use() -> None:
    schedule = Schedule((1, 2, 4, 9))
    with torch.inference_mode():
        pack(schedule)
    logits = torch.randn(2, 9, VOCAB, requires_grad=True)
    tokens = Tokens.full(torch.zeros(2, 9, dtype=torch.int64))
    blockwise_loss(logits, tokens, schedule, None).backward()
    assert logits.grad is not None


def test_only_stages_that_some_row_reaches_are_run() -> None:
    tokens = Tokens(torch.tensor([[3, 4, 0], [5, 0, 0]]), torch.tensor([2, 1]))
    fitted, schedule = fit_to_schedule(tokens, Schedule((1, 3, 8)), end_id=VOCAB)
    assert schedule == Schedule((1, 3)), "two tokens and the end symbol"
    assert fitted.ids.shape == (2, 3)
    same, whole = fit_to_schedule(tokens, Schedule((1, 3, 8)), end_id=None)
    assert whole == Schedule((1, 3, 8))
    assert same.ids.shape == (2, 8)


def test_the_end_symbol_follows_the_last_token() -> None:
    tokens = Tokens(torch.tensor([[3, 0, 0], [4, 5, 6]]), torch.tensor([1, 3]))
    wanted, counts = targets(tokens, 3, VOCAB)
    assert wanted.tolist() == [[3, VOCAB, 0], [4, 5, 6]]
    assert counts.int().tolist() == [[1, 1, 0], [1, 1, 1]]
    wanted, counts = targets(tokens, 3, None)
    assert wanted.tolist() == tokens.ids.tolist()
    assert counts.all()
