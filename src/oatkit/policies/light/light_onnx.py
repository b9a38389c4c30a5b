"""The light policy as ONNX files: one encodes an observation, the other is called stage by stage.

observation ── encoder ── into, back ──┐
symbols, positions, bias, cache ───────┴── stage ── logits, cache
"""

from __future__ import annotations

from typing import Any, cast

import torch

from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.nn.image_encoder import ImageEncoder
from oatkit.nn.onnx import layers as modules
from oatkit.nn.onnx.graph import Graph, Port
from oatkit.nn.onnx.stage_decoder import token_decoder_model
from oatkit.policies.generation.packing import pack
from oatkit.policies.light.light_net import LightNet
from oatkit.policies.light.light_policy import LightPolicy
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.types.observation_keys import IMAGES, STATE, TASK


def stage_model(policy: LightPolicy) -> bytes:
    """The file that one call of generation runs; see `onnx_decoder`."""
    return token_decoder_model(FrozenDecoder(policy.net.decoder))


@torch.inference_mode()
def encoder_model(policy: LightPolicy) -> bytes:
    """The file that is run once per observation.

    task                          (B,) int64, place among the tasks
    observation.state             (B, history, state_dim) float32, raw units
    observation.images.<camera>   (B, history, height, width, 3) uint8
    into, back                    what the stages read
    """
    graph, net, spec = Graph(), policy.net, policy.spec
    width = net.config.width
    parts = [
        graph.reshape(graph.add("Gather", graph.weight(net.task.weight), TASK), [-1, 1, width])
    ]
    if spec.state is not None and net.state is not None:
        scale, offset = (
            graph.weight(torch.tensor(values, dtype=torch.float32))
            for values in (spec.state.scale, spec.state.offset)
        )
        normed = graph.add("Div", graph.add("Sub", STATE, offset), scale)
        parts.append(modules.linear(graph, net.state, normed))
    for camera, encoder in zip(spec.cameras, net.cameras, strict=True):
        parts.append(_images(graph, net, cast(ImageEncoder, encoder), camera, spec))
    slots = graph.add("Add", graph.add("Concat", *parts, axis=1), graph.weight(net.slots))
    into, back = _folded(graph, net, modules.transformer(graph, net.context, slots))
    outputs = {
        "into": (into, Port("float32", ("LB", width, "X"))),
        "back": (back, Port("float32", ("LB", "X", width))),
    }
    return graph.model(_inputs(spec), outputs, opset=modules.OPSET, ir_version=modules.IR_VERSION)


def generation_facts(policy: LightPolicy) -> dict[str, Any]:
    """What a caller of both files needs beside them."""
    net = policy.net
    stages = pack(policy.schedule).stages
    return {
        "endpoints": list(policy.schedule.endpoints),
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


def _inputs(spec: ObservationSpec) -> dict[str, Port]:
    inputs = {TASK: Port("int64", ("B",))}
    if spec.state is not None:
        inputs[STATE] = Port("float32", ("B", spec.history, spec.state_dim))
    for camera, size in spec.cameras.items():
        inputs[f"{IMAGES}{camera}"] = Port("uint8", ("B", spec.history, *size, 3))
    return inputs


def _images(
    graph: Graph, net: LightNet, encoder: ImageEncoder, camera: str, spec: ObservationSpec
) -> str:
    size, crop = net.config.image_size, net.config.crop_size
    shape = spec.cameras[camera]
    flat = graph.reshape(f"{IMAGES}{camera}", [-1, *shape, 3])
    turned = graph.add("Transpose", flat, perm=[0, 3, 1, 2])
    images = graph.add("Div", graph.add("Cast", turned, to=1), graph.weight(255.0))
    cropped = modules.resize_and_crop(graph, images, shape, size, crop)
    encoded = modules.image_encoder(graph, encoder, cropped, crop)
    return graph.reshape(encoded, [-1, spec.history, net.config.width])


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
