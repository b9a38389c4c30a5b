"""The encoder of observations that the light networks share, as nodes of an ONNX graph."""

from __future__ import annotations

from typing import cast

import torch

from oatkit.nn.image_encoder import ImageEncoder
from oatkit.nn.onnx import layers as modules
from oatkit.nn.onnx.graph import Graph, Port
from oatkit.policies.light.light_config import LightConfig
from oatkit.policies.light.observation_encoder import EncodesObservations
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.types.observation_keys import IMAGES, STATE, TASK


def observation_ports(spec: ObservationSpec) -> dict[str, Port]:
    """Inputs of a graph that reads observations.

    task                          (B,) int64, place among the tasks
    observation.state             (B, history, state_dim) float32, raw units
    observation.images.<camera>   (B, history, height, width, 3) uint8
    """
    inputs = {TASK: Port("int64", ("B",))}
    if spec.state is not None:
        inputs[STATE] = Port("float32", ("B", spec.history, spec.state_dim))
    for camera, size in spec.cameras.items():
        inputs[f"{IMAGES}{camera}"] = Port("uint8", ("B", spec.history, *size, 3))
    return inputs


def add_encoder(
    graph: Graph, net: EncodesObservations, config: LightConfig, spec: ObservationSpec
) -> str:
    """Add what `encode_observations` does with those inputs; gives the name of the context."""
    width = config.width
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
        parts.append(_images(graph, config, cast(ImageEncoder, encoder), camera, spec))
    slots = graph.add("Add", graph.add("Concat", *parts, axis=1), graph.weight(net.slots))
    return modules.transformer(graph, net.context, slots)


def _images(
    graph: Graph, config: LightConfig, encoder: ImageEncoder, camera: str, spec: ObservationSpec
) -> str:
    size, crop = config.image_size, config.crop_size
    shape = spec.cameras[camera]
    flat = graph.reshape(f"{IMAGES}{camera}", [-1, *shape, 3])
    turned = graph.add("Transpose", flat, perm=[0, 3, 1, 2])
    images = graph.add("Div", graph.add("Cast", turned, to=1), graph.weight(255.0))
    cropped = modules.resize_and_crop(graph, images, shape, size, crop)
    encoded = modules.image_encoder(graph, encoder, cropped, crop)
    return graph.reshape(encoded, [-1, spec.history, config.width])
