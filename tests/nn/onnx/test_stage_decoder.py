"""A decoder in ONNX Runtime, fed piece by piece, against the same decoder in torch."""

from __future__ import annotations

import onnx
import pytest
import torch

from oatkit.nn.decoder_backend import has_onnx
from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.nn.onnx.graph import ports
from oatkit.nn.onnx.stage_decoder import OPSET, OnnxDecoder, token_decoder_model
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.nn.transformer import causal_mask

pytestmark = pytest.mark.skipif(not has_onnx(), reason="oatkit[onnx] is too old")

SYMBOLS, SLOTS, WIDTH, CONTEXT = 7, 5, 8, 3


@pytest.fixture
def frozen() -> FrozenDecoder:
    torch.manual_seed(0)
    decoder = TokenDecoder(SYMBOLS, SYMBOLS - 1, SLOTS, width=WIDTH, num_layers=2, num_heads=2)
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return FrozenDecoder(decoder.eval())


@torch.inference_mode()
@pytest.mark.parametrize("batch_size", [1, 3])
def test_any_batch_and_any_pieces(batch_size: int, frozen: FrozenDecoder) -> None:
    """Some slots are kept and some are not, with and without a mask."""
    context = [
        (
            torch.randn(batch_size, 2, CONTEXT, WIDTH // 2),
            torch.randn(batch_size, 2, CONTEXT, WIDTH // 2),
        )
        for _ in range(2)
    ]
    ours = OnnxDecoder(frozen).start(context, batch_size, SLOTS)
    theirs = frozen.start(context, batch_size, SLOTS)
    num_before = 0
    for num_slots, num_kept, has_mask in ((1, 1, False), (3, 1, True), (2, 2, True), (1, 0, False)):
        ids = torch.randint(SYMBOLS, (batch_size, num_slots))
        positions = num_before + torch.arange(num_slots)
        mask = causal_mask(num_before + num_slots)[num_before:] if has_mask else None
        found = ours.feed(ids, positions, mask, num_kept)
        wanted = theirs.feed(ids, positions, mask, num_kept)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
        num_before += num_kept


def test_the_file_is_valid_and_names_its_sizes(frozen: FrozenDecoder) -> None:
    model = token_decoder_model(frozen)
    assert model == token_decoder_model(frozen)
    loaded = onnx.load_from_string(model)
    onnx.checker.check_model(loaded)
    assert [opset.version for opset in loaded.opset_import] == [OPSET]
    found = ports(model)
    assert found["inputs"]["symbols"] == {"dtype": "int64", "shape": ["B", "G"]}
    assert found["inputs"]["keys"]["shape"] == ["LB", 2, "P", WIDTH // 2]
    assert found["outputs"]["logits"]["shape"] == ["B", "G", SYMBOLS - 1]
    assert found["outputs"]["new_values"]["shape"] == ["LB", 2, "P+G", WIDTH // 2]


@torch.inference_mode()
def test_a_file_that_is_there_is_run_as_it_is(frozen: FrozenDecoder) -> None:
    other = TokenDecoder(SYMBOLS, SYMBOLS - 1, SLOTS, width=WIDTH, num_layers=2, num_heads=2)
    model = token_decoder_model(FrozenDecoder(other))
    shape = (1, 2, CONTEXT, WIDTH // 2)
    context = [(torch.randn(shape), torch.randn(shape)) for _ in range(2)]
    feed = (torch.tensor([[3]]), torch.tensor([0]), None, 1)
    own = OnnxDecoder(frozen).start(context, 1, SLOTS).feed(*feed)
    given = OnnxDecoder(frozen, model).start(context, 1, SLOTS).feed(*feed)
    assert (own - given).abs().max() > 1e-3
