"""The light policy as ONNX files: one encodes an observation, the other is called stage by stage.

observation ── encoder ── into, back ──┐
                  │                    ├── stage ── logits, cache
                  │    symbols, positions, bias, cache
                  └── context, with an offset head ── decoder ── actions
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch

from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.nn.onnx import layers as modules
from oatkit.nn.onnx.graph import Graph, Port
from oatkit.nn.onnx.stage_decoder import token_decoder_model
from oatkit.nn.transformer import Mlp
from oatkit.policies.generation.packing import pack
from oatkit.policies.light.light_model import LightModel
from oatkit.policies.light.light_net import LightNet
from oatkit.policies.light.observation_onnx import add_encoder, observation_ports
from oatkit.tokenizers.codec_onnx import decoder_model

CONTEXT = "context"


def stage_model(light: LightModel) -> bytes:
    """The file that one call of generation runs; see `onnx_decoder`."""
    return token_decoder_model(FrozenDecoder(light.net.decoder))


@torch.inference_mode()
def encoder_model(light: LightModel) -> bytes:
    """The file that is run once per observation; `observation_ports` are its inputs.

    into, back   what the stages read
    context      what the offset head reads, where there is one
    """
    graph, net, spec = Graph(), light.net, light.spec
    width = net.config.width
    context = add_encoder(graph, net, net.config, spec)
    into, back = _folded(graph, net, context)
    outputs = {
        "into": (into, Port("float32", ("LB", width, "X"))),
        "back": (back, Port("float32", ("LB", "X", width))),
    }
    if net.offset is not None:
        outputs[CONTEXT] = (context, context_port(net))
    return graph.model(
        observation_ports(spec), outputs, opset=modules.OPSET, ir_version=modules.IR_VERSION
    )


def context_port(net: LightNet) -> Port:
    """The encoded observations, as the offset head reads them."""
    return Port("float32", ("B", len(net.slots), net.config.width))


@torch.inference_mode()
def policy_decoder_model(light: LightModel) -> bytes:
    """The file that decodes tokens: the tokenizer's, with the offset of what is observed.

    Where there is an offset head it has one more input:

    context   (B, slots, width) float32, what the encoder gives
    """
    net = light.net
    if net.offset is None:
        return decoder_model(light.tokenizer)
    return decoder_model(light.tokenizer, partial(_add_offset, light), {CONTEXT: context_port(net)})


def _add_offset(light: LightModel, graph: Graph, chunks: str, lengths: str | None) -> str:
    """`OffsetHead` as nodes; without `lengths` chunks are always of all tokens."""
    net, tokenizer = light.net, light.tokenizer
    head = net.offset
    assert head is not None
    flat = graph.reshape(chunks, [-1, head.chunk.in_features])
    seen = graph.reshape(CONTEXT, [-1, head.context.in_features])
    x = graph.add(
        "Add",
        modules.linear(graph, head.context, seen),
        modules.linear(graph, head.chunk, flat),
    )
    if lengths is None:
        count = graph.weight(head.count_rows[tokenizer.max_tokens])
    else:
        count = graph.add("Gather", graph.weight(head.count_rows), lengths)
    x = graph.add("Add", x, count)
    for layer in head.layers:
        x = graph.add("Add", x, modules.mlp(graph, cast(Mlp, layer), x))
    added = modules.linear(graph, head.out, modules.layer_norm(graph, head.norm, x))
    shape = [-1, tokenizer.horizon, tokenizer.normalizer.dim]
    return graph.add("Add", chunks, graph.reshape(added, shape))


def generation_facts(light: LightModel) -> dict[str, Any]:
    """What a caller of both files needs beside them."""
    net = light.net
    stages = pack(light.schedule).stages
    return {
        "endpoints": list(light.schedule.endpoints),
        "mask_id": net.mask_id,
        "num_layers": net.config.num_layers,
        "num_heads": net.config.num_heads,
        "head_width": net.config.width // net.config.num_heads,
        "hidden": modules.HIDDEN,
        "stages": [
            {
                "positions": stage.positions.tolist(),
                "is_seen": None if stage.mask is None else stage.mask.int().tolist(),
                "num_kept": stage.num_kept,
            }
            for stage in stages
        ],
    }


def _folded(graph: Graph, net: LightNet, context: str) -> tuple[str, str]:
    """`FrozenDecoder.fold` of the context's keys and values, as `OnnxGeneration` hands it over."""
    keys_values, folding_NCD = net.decoder.keys_values, FrozenDecoder(net.decoder).folding
    config, num_slots = net.config, len(net.slots)
    heads, width, num_layers = config.num_heads, config.width, config.num_layers
    normed = modules.layer_norm(graph, keys_values.norm, context)
    pairs = modules.linear(graph, keys_values.project, normed)
    pairs = graph.reshape(pairs, [0, num_slots, len(folding_NCD), width // heads])
    pairs_NBSC = graph.add("Transpose", pairs, perm=[2, 0, 1, 3])
    pairs = graph.reshape(pairs_NBSC, [len(folding_NCD), -1, width // heads])
    folded = graph.add("MatMul", pairs, graph.weight(folding_NCD))
    shape = [num_layers, 2, heads, -1, num_slots, width]
    folded_2LBHSD = graph.add("Transpose", graph.reshape(folded, shape), perm=[1, 0, 3, 2, 4, 5])
    halves = graph.parts(folded_2LBHSD, 2, 0)
    into, back = (graph.reshape(half, [-1, heads * num_slots, width]) for half in halves)
    return graph.add("Transpose", into, perm=[0, 2, 1]), back
