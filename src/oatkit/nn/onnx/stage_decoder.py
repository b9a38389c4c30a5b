"""`FrozenDecoder` in ONNX Runtime, whose products with a few rows are about twice as fast.

One graph serves all calls: the sizes of the batch, of the call and of the cache are free. What
differs between layers is stacked along the batch, so that a call passes only a few arrays.

Shape letters: as in `frozen_decoder`; P slot in the cache, X = H x S.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.nn.onnx.graph import Graph, Port, open_session
from oatkit.nn.onnx.layers import HIDDEN

OPSET = 23
"""The first version of the operators that has `Attention`."""
IR_VERSION = 11
"""Version of the file format that goes with the operators."""


class OnnxDecoder:
    """A `FrozenDecoder` in ONNX Runtime: the same weights, the same logits.

    Args:
        frozen: The decoder to run.
        model: ONNX file of the decoder, where `token_decoder_model` has written it already.
    """

    def __init__(self, frozen: FrozenDecoder, model: bytes | None = None) -> None:
        self.frozen = frozen
        self.session = open_session(model or token_decoder_model(frozen))

    def start(
        self, context: Sequence[tuple[Tensor, Tensor]], batch_size: int, num_slots: int
    ) -> OnnxGeneration:
        del num_slots  # the runtime makes room as it goes
        return OnnxGeneration(self, context, batch_size)


class OnnxGeneration:
    """One generation: a context and a cache."""

    def __init__(
        self, decoder: OnnxDecoder, context: Sequence[tuple[Tensor, Tensor]], batch_size: int
    ) -> None:
        frozen = decoder.frozen
        self._run = decoder.session.run
        into_LBXD, back_LBXD = frozen.fold(context, batch_size).unbind(dim=1)
        shape = (len(frozen.layers) * batch_size, frozen.num_heads, 0)
        empty = np.empty((*shape, frozen.width // frozen.num_heads), np.float32)
        self._inputs: dict[str, NDArray[Any]] = {
            "into": into_LBXD.transpose(2, 3).flatten(0, 1).detach().contiguous().numpy(),
            "back": back_LBXD.flatten(0, 1).detach().contiguous().numpy(),
            "keys": empty,
            "values": empty,
        }

    def feed(
        self, inputs_BG: Tensor, positions_G: Tensor, mask_GS: Tensor | None, num_kept: int
    ) -> Tensor:
        """Logits (B, G, V); only the first `num_kept` slots stay in the cache."""
        inputs, num_slots = self._inputs, inputs_BG.shape[1]
        num_before = inputs["keys"].shape[2]
        bias_GS = np.zeros((num_slots, num_before + num_slots), np.float32)
        if mask_GS is not None:
            bias_GS[~mask_GS.numpy()] = HIDDEN
        inputs |= {
            "symbols": inputs_BG.contiguous().numpy(),
            "positions": positions_G.numpy(),
            "bias": bias_GS,
        }
        logits_BGV, keys, values = self._run(None, inputs)
        num_seen = num_before + num_kept
        inputs["keys"] = np.ascontiguousarray(keys[:, :, :num_seen])
        inputs["values"] = np.ascontiguousarray(values[:, :, :num_seen])
        return torch.from_numpy(logits_BGV)


def token_decoder_model(frozen: FrozenDecoder) -> bytes:
    """What `FrozenGeneration.feed` computes, line by line, as an ONNX file."""
    graph, heads, width, num_layers = Graph(), frozen.num_heads, frozen.width, len(frozen.layers)
    rows = graph.weight([-1, width])
    call = graph.add("Shape", "symbols")
    slots = graph.add("Concat", call, graph.weight([-1]), axis=0)
    by_head = graph.add("Concat", call, graph.weight([heads, -1]), axis=0)

    symbols = graph.add("Gather", graph.weight(frozen.symbols), "symbols")
    positions = graph.add("Gather", graph.weight(frozen.positions), "positions")
    x = graph.add("Reshape", graph.add("Add", symbols, positions), rows)
    given = [graph.parts(name, num_layers, 0) for name in ("into", "back", "keys", "values")]
    caches = []
    for layer, into, back, keys, values in zip(frozen.layers, *given, strict=True):
        qkv = graph.add("MatMul", graph.norm(x, layer.norm_1), graph.weight(layer.qkv))
        qkv_parts = graph.parts(graph.add("Reshape", qkv, slots), 3, -1)
        sizes = {"q_num_heads": heads, "kv_num_heads": heads}
        seen, *cache = graph.add_many("Attention", 3, *qkv_parts, "bias", keys, values, **sizes)
        caches.append(cache)
        x = graph.add("Gemm", graph.add("Reshape", seen, rows), graph.weight(layer.out), x)

        h = graph.add("Reshape", graph.norm(x, layer.norm_2), slots)
        scores = graph.add("Reshape", graph.add("MatMul", h, into), by_head)
        share = graph.add("Reshape", graph.add("Softmax", scores), slots)
        x = graph.add("Add", x, graph.add("Reshape", graph.add("MatMul", share, back), rows))

        widen, narrow = graph.weight(layer.widen), graph.weight(layer.narrow)
        h = graph.add("Gemm", graph.norm(x, layer.norm_3), widen, graph.weight(layer.widen_bias))
        h = graph.add("Relu", h)
        x = graph.add("Add", x, graph.add("Gemm", h, narrow, graph.weight(layer.narrow_bias)))
    h = graph.norm(x, frozen.norm)
    h = graph.add("Gemm", h, graph.weight(frozen.head), graph.weight(frozen.bias))
    logits = graph.add("Reshape", h, slots)
    keys, values = (graph.add("Concat", *cache, axis=0) for cache in zip(*caches, strict=True))
    inputs, ports = _ports(heads, width, len(frozen.bias))
    outputs = dict(
        zip(ports, zip((logits, keys, values), ports.values(), strict=True), strict=True)
    )
    return graph.model(inputs, outputs, opset=OPSET, ir_version=IR_VERSION)


def _ports(heads: int, width: int, num_outputs: int) -> tuple[dict[str, Port], dict[str, Port]]:
    """Inputs and outputs of the file."""

    def cached(num_slots: str) -> Port:
        return Port("float32", ("LB", heads, num_slots, width // heads))

    inputs = {
        "symbols": Port("int64", ("B", "G")),
        "positions": Port("int64", ("G",)),
        "bias": Port("float32", ("G", "P+G")),
        "into": Port("float32", ("LB", width, "X")),
        "back": Port("float32", ("LB", "X", width)),
        "keys": cached("P"),
        "values": cached("P"),
    }
    outputs = {
        "logits": Port("float32", ("B", "G", num_outputs)),
        "new_keys": cached("P+G"),
        "new_values": cached("P+G"),
    }
    return inputs, outputs
