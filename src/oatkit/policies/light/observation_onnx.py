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
from oatkit.policies.observation.observations import STATE_LIMIT
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
    _require_own_sizes(spec)
    width = config.width
    table = net.task.weight[_task_rows(spec)]
    parts = [graph.reshape(graph.add("Gather", graph.weight(table), TASK), [-1, 1, width])]
    empty = graph.add("Mul", parts[0], graph.weight(0.0))
    if spec.state is not None and net.state is not None:
        scale, offset = (
            graph.weight(torch.tensor(values, dtype=torch.float32))
            for values in (spec.state.scale, spec.state.offset)
        )
        normed = graph.add("Div", graph.add("Sub", STATE, offset), scale)
        bounds = (graph.weight(limit) for limit in (-STATE_LIMIT, STATE_LIMIT))
        normed = graph.add("Clip", normed, *bounds)
        own = modules.narrowed(net.state, spec.state_dim, width)
        parts.append(modules.linear(graph, own, normed))
    elif net.state is not None:  # a robot without a state among others
        parts += [graph.add("Add", empty, graph.weight(net.state.bias))] * spec.history
    for camera, encoder in zip(spec.cameras, net.cameras, strict=False):
        parts.append(_images(graph, config, cast(ImageEncoder, encoder), camera, spec))
    parts += [empty] * spec.history * (len(net.cameras) - len(spec.cameras))
    slots = graph.add("Add", graph.add("Concat", *parts, axis=1), graph.weight(net.slots))
    return modules.transformer(graph, net.context, slots)


def _task_rows(spec: ObservationSpec) -> list[int]:
    """Rows of the network's table of tasks that are the policy's own, in its order."""
    place = spec.embodiment
    if place is None:
        return list(range(max(1, len(spec.tasks))))
    return [place.tasks.index(place.instruction(task)) for task in spec.tasks or ("",)]


def _require_own_sizes(spec: ObservationSpec) -> None:
    """Refuse images that are resized to those of other robots first."""
    sizes = spec.cameras.values() if spec.embodiment is None else spec.embodiment.camera_sizes
    for (camera, own), size in zip(spec.cameras.items(), sizes, strict=False):
        if own != size:
            raise ValueError(
                f"camera {camera!r} gives images of {own[0]} x {own[1]}, which are resized to the "
                f"{size[0]} x {size[1]} of another robot: such a policy has no ONNX files, serve it"
            )


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
