"""Which backend generates tokens: the fastest that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import torch
from torch import Tensor

from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.nn.onnx.stage_decoder import OnnxDecoder
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.nn.weight_versions import weight_versions

OLDEST = {"onnx": (1, 18), "onnxruntime": (1, 24)}
"""The first versions that know the operators of `onnx/stage_decoder.py`."""


class Generation(Protocol):
    """One generation: a context and a cache."""

    def feed(
        self, inputs_BG: Tensor, positions_G: Tensor, mask_GS: Tensor | None, num_kept: int
    ) -> Tensor:
        """Logits (B, G, V); only the first `num_kept` slots stay in the cache."""


class Frozen(Protocol):
    """A decoder that generates with a copy of the weights."""

    def start(
        self, context: Sequence[tuple[Tensor, Tensor]], batch_size: int, num_slots: int
    ) -> Generation:
        """Start a generation with an empty cache; see `FrozenDecoder.start`."""


class DecoderBackend:
    """Generates with the present weights of a decoder, which is frozen again when they change.

    Args:
        decoder: A decoder that may be trained meanwhile.
    """

    def __init__(self, decoder: TokenDecoder) -> None:
        self._decoder = decoder
        self._frozen: Frozen | None = None
        self._versions: list[tuple[int, int]] = []

    def __getstate__(self) -> dict[str, Any]:
        """What a copy gets: a session of ONNX Runtime cannot be copied, so it makes its own."""
        return {"_decoder": self._decoder, "_frozen": None, "_versions": []}

    def start(
        self, context: Sequence[tuple[Tensor, Tensor]], batch_size: int, num_slots: int
    ) -> Generation:
        """Generation with an empty cache; see `FrozenDecoder.start`."""
        versions = weight_versions(self._decoder.parameters())
        if self._frozen is None or versions != self._versions:
            self._frozen, self._versions = freeze(self._decoder), versions
        return self._frozen.start(context, batch_size, num_slots)


def freeze(decoder: TokenDecoder) -> Frozen:
    """The decoder in ONNX Runtime on a CPU where `oatkit[onnx]` is installed, else in torch."""
    frozen = FrozenDecoder(decoder)
    is_plain = frozen.head.device.type == "cpu" and frozen.head.dtype == torch.float32
    return OnnxDecoder(frozen) if is_plain and has_onnx() else frozen


def has_onnx() -> bool:
    """Whether the packages of `oatkit[onnx]` are there and new enough."""
    try:
        found = {name: version(name).split(".")[:2] for name in OLDEST}
    except PackageNotFoundError:
        return False
    return all(tuple(map(int, found[name])) >= oldest for name, oldest in OLDEST.items())
