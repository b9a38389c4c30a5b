"""The decoder of a tokenizer as an ONNX file: tokens in, raw actions out, with any batch.

Whatever depends on one id alone is computed here for the whole vocabulary, so that a decoder
begins with looking tokens up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatch
from types import MappingProxyType

import torch
from torch import Tensor

from oatkit.nn.onnx import layers as modules
from oatkit.nn.onnx.graph import Graph, Port
from oatkit.tokenizers.acodec import Acodec
from oatkit.tokenizers.action_tokenizer import ActionTokenizer
from oatkit.tokenizers.bin import Bin
from oatkit.tokenizers.codec import Codec, to_shape
from oatkit.tokenizers.corrected import Corrected
from oatkit.tokenizers.fast import Fast
from oatkit.tokenizers.klt import Klt
from oatkit.tokenizers.klt_paths import LOG_GAINS
from oatkit.tokenizers.oat import Oat
from oatkit.tokenizers.quest import Quest
from oatkit.tokenizers.refined import Refined
from oatkit.tokenizers.transform_onnx import STATE, inverted

TOKENS, LENGTHS, ACTIONS = "tokens", "lengths", "actions"


Correction = Callable[[Graph, str, str | None], str]
"""Adds nodes to a graph: from normalized chunks (B, horizon, action_dim), and the number of tokens
of each or None where it is always all, to other such chunks."""


@torch.inference_mode()
def decoder_model(
    tokenizer: ActionTokenizer,
    correct: Correction | None = None,
    read: Mapping[str, Port] = MappingProxyType({}),
) -> bytes:
    """The file.

    tokens   (B, max_tokens) int64, in the vocabulary; anything in it past a row's length
    lengths  (B,) int64, the budget of each row; missing where a kind has no prefixes
    state    (B, state_dim) float32, raw units, at the start of the chunk; only where actions are
             relative to it
    actions  (B, horizon, action_dim) float32, raw units

    Args:
        tokenizer: The tokenizer.
        correct: What a policy does to normalized chunks; nothing by default.
        read: Further inputs, which `correct` reads.
    """
    graph, codec = Graph(), tokenizer.codec
    transform, horizon = tokenizer.normalizer.transform, tokenizer.horizon
    coded = [-1, codec.config.horizon, codec.config.action_dim]
    chunks = graph.reshape(decoder(codec, graph, TOKENS, LENGTHS), coded)
    chunks = _in_shape(graph, chunks, (coded[1], coded[2]), tokenizer.coded_shape)
    if correct is not None:
        chunks = correct(graph, chunks, LENGTHS if codec.has_prefixes else None)
    spread, offset = (
        graph.weight(torch.tensor(values, dtype=torch.float32))
        for values in (tokenizer.normalizer.spread, tokenizer.normalizer.offset)
    )
    actions = graph.add("Add", graph.add("Mul", chunks, spread), offset)
    inputs = {TOKENS: Port("int64", ("B", tokenizer.max_tokens)), **read}
    if codec.has_prefixes:
        inputs[LENGTHS] = Port("int64", ("B",))
    if transform is not None:
        actions = inverted(graph, transform, actions)
        if transform.needs_state:
            inputs[STATE] = Port("float32", ("B", transform.state_dim))
    shape = (horizon, tokenizer.action_dim)
    return graph.model(
        inputs,
        {ACTIONS: (actions, Port("float32", ("B", *shape)))},
        opset=modules.OPSET,
        ir_version=modules.IR_VERSION,
    )


def _in_shape(graph: Graph, chunks: str, shape: tuple[int, int], wanted: tuple[int, int]) -> str:
    """`to_shape`, for a robot of a mixture: its dimensions alone, stretched in time."""
    if shape[1] != wanted[1]:
        chunks = graph.add("Gather", chunks, graph.weight(torch.arange(wanted[1])), axis=2)
    if shape[0] != wanted[0]:
        steps = torch.eye(shape[0])[None]
        stretching = to_shape(steps, (wanted[0], shape[0]))[0]
        chunks = graph.add("MatMul", graph.weight(stretching), chunks)
    return chunks


@singledispatch
def decoder(codec: Codec, graph: Graph, tokens: str, lengths: str) -> str:
    """Nodes that decode: normalized chunks, (B, horizon, action_dim) or flattened."""
    raise ValueError(f"{codec.config.kind} has no decoder in ONNX: export another kind")


@decoder.register
def _(codec: Fast, graph: Graph, tokens: str, lengths: str) -> str:
    raise ValueError(
        "fast has no decoder in ONNX: its tokens are byte pairs, which are read by the tokenizers "
        "package; export another kind, or decode where oatkit is"
    )


@decoder.register
def _(codec: Bin, graph: Graph, tokens: str, lengths: str) -> str:
    num_bins = codec.config.num_bins
    centers_V = (torch.arange(num_bins) + 0.5) / num_bins * 2 - 1
    return graph.add("Gather", graph.weight(centers_V), tokens)


@decoder.register
def _(codec: Oat, graph: Graph, tokens: str, lengths: str) -> str:
    ids_V = torch.arange(codec.vocab_size, device=codec.slots.device)
    source = _look_up(graph, codec.from_code(codec.quantizer.codes(ids_V)), tokens)
    source = graph.add("Add", source, graph.weight(codec.slots))
    is_kept = _is_kept(graph, codec.max_tokens, lengths)
    source = graph.add("Where", is_kept, source, graph.weight(codec.masks))
    return _read(graph, codec, source)


@decoder.register
def _(codec: Quest, graph: Graph, tokens: str, lengths: str) -> str:
    ids_V = torch.arange(codec.vocab_size, device=codec.positions.device)
    source = _look_up(graph, codec.from_code(codec.quantizer.codes(ids_V)), tokens)
    source = graph.add("Add", source, graph.weight(codec.positions[: codec.max_tokens]))
    return _read(graph, codec, source)


@decoder.register
def _(codec: Acodec, graph: Graph, tokens: str, lengths: str) -> str:
    source = _look_up(graph, codec.from_code(codec.quantizer.codebook), tokens)
    source = graph.add("Add", source, graph.weight(codec.slots))
    return _read(graph, codec, source)


@decoder.register
def _(codec: Klt, graph: Graph, tokens: str, lengths: str) -> str:
    first_K = graph.weight(codec.vocab_size * torch.arange(codec.max_tokens))
    rows = graph.add("Add", tokens, first_K)
    is_kept = _is_kept(graph, codec.max_tokens, lengths)
    if codec.summed_tables is not None:
        vectors = _look_up(graph, codec.summed_tables.joined().flatten(0, 1), rows)
        vectors = graph.add("Where", is_kept, vectors, graph.weight(0.0))
        summed = graph.add("ReduceSum", vectors, graph.weight([1]), keepdims=0)
        return graph.add("Add", summed, graph.weight(codec.mean))
    gains = _look_up(graph, codec.gains.flatten()[:, None], rows)
    gains = graph.add("CumSum", gains, graph.weight(1), exclusive=1)
    low, high = (graph.weight(bound) for bound in LOG_GAINS)
    scales = graph.add("Exp", graph.add("Clip", gains, low, high))
    scales = graph.add("Mul", scales, graph.weight(codec.scales[:, None]))
    scales = graph.add("Where", is_kept, scales, graph.weight(0.0))
    vectors = graph.add("Mul", _look_up(graph, codec.rows.float().flatten(0, 1), rows), scales)
    flat = graph.reshape(vectors, [-1, codec.rows.shape[0] * codec.rows.shape[2]])
    directions = codec.directions.transpose(1, 2).flatten(0, 1) @ codec.basis.T
    summed = graph.add("MatMul", flat, graph.weight(directions))
    return graph.add("Add", summed, graph.weight(codec.mean))


@decoder.register
def _(codec: Corrected, graph: Graph, tokens: str, lengths: str) -> str:
    net, size = codec.net, codec.config.horizon * codec.config.action_dim
    chunk = graph.reshape(decoder(codec.tables, graph, tokens, lengths), [-1, size])
    count = graph.add("Clip", lengths, graph.weight(0), graph.weight(codec.max_tokens))
    read = modules.linear(graph, net.read, chunk)
    read = graph.add("Add", read, _look_up(graph, net.count.weight, count))
    hidden = graph.add("Relu", read)
    mixed = graph.add("Relu", modules.linear(graph, net.mix, hidden))
    added = modules.linear(graph, net.write, graph.add("Add", hidden, mixed))
    scale = _look_up(graph, codec.scale[:, None], count)
    return graph.add("Add", chunk, graph.add("Mul", added, scale))


@decoder.register
def _(codec: Refined, graph: Graph, tokens: str, lengths: str) -> str:
    count, shape = codec.learned.max_tokens, [-1, codec.config.horizon, codec.config.action_dim]
    sizes = graph.weight([count, codec.tail.max_tokens])
    first, later = graph.add_many("Split", 2, tokens, sizes, axis=1)
    left = graph.add("Sub", lengths, graph.weight([count]))
    coarse = decoder(codec.learned, graph, first, lengths)
    fine = graph.reshape(decoder(codec.tail, graph, later, left), shape)
    is_past = graph.reshape(graph.add("Greater", left, graph.weight([0])), [-1, 1, 1])
    fine = graph.add("Where", is_past, fine, graph.weight(0.0))
    return graph.add("Add", coarse, fine)


def _look_up(graph: Graph, table_VD: Tensor, tokens: str) -> str:
    """(B, K) -> (B, K, D)."""
    return graph.add("Gather", graph.weight(table_VD), tokens)


def _read(graph: Graph, codec: Oat | Quest | Acodec, source: str) -> str:
    """(B, K, D) -> (B, T, A)."""
    x = modules.cross_decoder(graph, codec.decoder, graph.weight(codec.step_queries()), source)
    return modules.linear(graph, codec.head, x)


def _is_kept(graph: Graph, num_tokens: int, lengths: str) -> str:
    """(B, K, 1) bool."""
    slots = graph.weight(torch.arange(num_tokens)[None, :, None])
    return graph.add("Less", slots, graph.reshape(lengths, [-1, 1, 1]))
