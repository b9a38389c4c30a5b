"""Which runtime generates: ONNX Runtime where it is installed and can, else torch."""

from __future__ import annotations

from copy import deepcopy
from importlib.metadata import PackageNotFoundError

import pytest
import torch

from oatkit.nn.decoder_backend import OLDEST, DecoderBackend, freeze, has_onnx
from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.nn.onnx.stage_decoder import OnnxDecoder
from oatkit.nn.token_decoder import TokenDecoder

VERSION = "oatkit.nn.decoder_backend.version"


def make_decoder() -> TokenDecoder:
    torch.manual_seed(0)
    return TokenDecoder(5, 4, 3, width=8, num_layers=1, num_heads=2).eval()


@pytest.mark.parametrize(
    ("onnx", "onnxruntime", "is_enough"),
    [("1.18.0", "1.24.0", True), ("1.18.0", "1.9.0", False), ("1.2.0", "1.30.1", False)],
)
def test_versions_are_compared_as_numbers(
    onnx: str, onnxruntime: str, is_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"onnx": onnx, "onnxruntime": onnxruntime}
    monkeypatch.setattr(VERSION, found.__getitem__)
    assert set(found) == set(OLDEST)
    assert has_onnx() == is_enough


def test_without_onnx_runtime_torch_generates(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(VERSION, missing)
    assert not has_onnx()
    assert isinstance(freeze(make_decoder()), FrozenDecoder)


@pytest.mark.skipif(not has_onnx(), reason="oatkit[onnx] is not installed")
def test_onnx_runtime_generates_in_float32_only() -> None:
    assert isinstance(freeze(make_decoder()), OnnxDecoder)
    assert isinstance(freeze(make_decoder().double()), FrozenDecoder)


def test_a_backend_follows_the_weights_and_can_be_copied() -> None:
    decoder = make_decoder()
    backend = DecoderBackend(decoder)
    context = [(torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4))]

    def first_logits(of: DecoderBackend) -> torch.Tensor:
        with torch.inference_mode():
            generation = of.start(context, 1, 3)
            return generation.feed(torch.tensor([[4]]), torch.tensor([0]), None, 1).clone()

    before = first_logits(backend)
    assert torch.equal(first_logits(backend), before)
    copy = deepcopy(backend)
    with torch.no_grad():
        decoder.bias += 1.0
    torch.testing.assert_close(first_logits(backend), before + 1)
    assert torch.equal(first_logits(copy), before), "a copy has weights of its own"
