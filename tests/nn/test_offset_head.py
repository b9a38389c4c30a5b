"""The head that corrects decoded chunks: zero before training, and what it reads."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from oatkit.nn.offset_head import OffsetHead
from oatkit.nn.sample_random import SampleRandom, sample_keys


def head(dropout: float = 0.0) -> OffsetHead:
    torch.manual_seed(0)
    return OffsetHead((8, 3), 2, 6, width=16, num_layers=2, dropout=dropout)


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(4, 8, 3), torch.tensor([1, 2, 4, 6]), torch.randn(4, 2, 16)


def trained(dropout: float = 0.0) -> OffsetHead:
    found = head(dropout)
    torch.nn.init.normal_(found.out.weight, std=0.3)
    return found


def test_nothing_is_corrected_before_training() -> None:
    chunk, lengths, context = inputs()
    assert torch.equal(head()(chunk, lengths, context), chunk)


@pytest.mark.parametrize("part", range(3))
def test_all_parts_are_read(part: int) -> None:
    before = inputs()
    after = [tensor.clone() for tensor in before]
    after[part][0] = after[part][0] + 1
    net = trained()
    moved = (net(*after) - after[0]) - (net(*before) - before[0])
    assert moved[0].abs().max() > 1e-3
    assert moved[1:].abs().max() == 0


def test_rows_are_corrected_alone() -> None:
    net, (chunk, lengths, context) = trained(), inputs()
    rows = [net(chunk[i : i + 1], lengths[i : i + 1], context[i : i + 1]) for i in range(4)]
    torch.testing.assert_close(torch.cat(rows), net(chunk, lengths, context))


def test_dropout_belongs_to_the_samples() -> None:
    net, (chunk, lengths, context) = trained(0.5), inputs()

    def dropped(rows: slice) -> Tensor:
        random = SampleRandom(sample_keys(0, 0, torch.arange(4)[rows]))
        return net(chunk[rows], lengths[rows], context[rows], random)

    whole = dropped(slice(0, 4))
    assert (whole - net(chunk, lengths, context)).abs().max() > 1e-3
    torch.testing.assert_close(torch.cat([dropped(slice(0, 1)), dropped(slice(1, 4))]), whole)


def test_a_chunk_stays_float32_where_the_head_is_not() -> None:
    chunk, lengths, context = inputs()
    found = trained().bfloat16()(chunk, lengths, context.bfloat16())
    assert found.dtype == torch.float32
    assert (found - chunk).abs().max() > 1e-3


def test_a_number_of_tokens_that_was_not_trained_is_taken_for_the_next_smaller_one() -> None:
    torch.manual_seed(0)
    net = OffsetHead((8, 3), 2, 6, trained=(2, 4), width=16, num_layers=2)
    torch.nn.init.normal_(net.out.weight, std=0.3)
    chunk, _, context = inputs()

    def corrected(count: int) -> Tensor:
        return net(chunk, torch.full((4,), count), context)

    for count, known in ((1, 2), (3, 2), (5, 4), (6, 4)):
        assert torch.equal(corrected(count), corrected(known))
        assert torch.equal(net.count_rows[count], net.count.weight[known])
    assert (corrected(2) - corrected(4)).abs().max() > 1e-3


def test_all_that_the_head_looks_up_moves_with_it() -> None:
    net = OffsetHead((8, 3), 2, 6, trained=(2, 4), width=16, num_layers=2).to("meta")
    chunk, lengths, context = (tensor.to("meta") for tensor in inputs())
    assert {buffer.device.type for buffer in net.buffers()} == {"meta"}
    assert net(chunk, lengths, context).device.type == "meta"
    assert "known_count" not in net.state_dict()
