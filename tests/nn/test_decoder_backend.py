"""Which runtime generates: ONNX Runtime where it is installed and can, else torch."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest
import torch

from oatkit.nn.decoder_backend import OLDEST, freeze, has_onnx
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
