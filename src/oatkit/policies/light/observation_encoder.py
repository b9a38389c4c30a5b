"""Encodes observations for the light networks: state, images and task read each other.

    state, images of each camera (history frames each), task
        ── embed ── add the slots ── context transformer ── context

A network registers the parts under its own names, which its artifacts have had since the first
version, so the encoder is functions over them and no module.

Shape letters: B batch, S context slot, D width, N image.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.frame_resizing import resize_frames
from oatkit.nn.image_encoder import ImageEncoder, resize, resize_and_crop
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.transformer import Transformer
from oatkit.policies.light.light_config import LightConfig
from oatkit.policies.observation.episode_reader import EpisodeReader, ResizedReading
from oatkit.policies.observation.observation_reading import read_observation
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import STATE_LIMIT, Observations


class EncodesObservations(Protocol):
    """A network that has the parts of the encoder.

    Attributes:
        cameras: One `ImageEncoder` for each camera.
        state: Embeds states; None where the state is not read.
        task: Embeds the number of a task.
        slots: (S, D) what tells the slots of the context apart.
        context: Lets them read each other.
    """

    cameras: nn.ModuleList
    state: nn.Linear | None
    task: nn.Embedding
    slots: nn.Parameter
    context: Transformer


def observation_parts(
    config: LightConfig, spec: ObservationSpec
) -> tuple[nn.ModuleList, nn.Linear | None, nn.Embedding, nn.Parameter, Transformer]:
    """Untrained parts of the encoder, in the order in which networks register them."""
    width, spec = config.width, spec.network
    cameras = nn.ModuleList(
        ImageEncoder(width, num_channels=config.image_channels, num_points=config.num_points)
        for _ in spec.cameras
    )
    state = nn.Linear(spec.state_dim, width) if spec.state_dim else None
    task = nn.Embedding(max(1, len(spec.tasks)), width)
    num_slots = 1 + spec.history * (len(spec.cameras) + (spec.state_dim > 0))
    slots = nn.Parameter(0.02 * torch.randn(num_slots, width))
    is_seen = torch.ones(num_slots, num_slots, dtype=torch.bool)
    context = Transformer(
        width, config.context_layers, config.num_heads, is_seen, dropout=config.dropout
    )
    return cameras, state, task, slots, context


def encode_observations(
    net: EncodesObservations,
    config: LightConfig,
    observations: Observations,
    random: SampleRandom | None = None,
) -> Tensor:
    """The context (B, S, D).

    Args:
        net: Network that has the parts.
        config: Sizes to which images are resized and cropped.
        observations: Observations of the batch.
        random: Random numbers of the samples, by which images are cropped anywhere and dropout
            drops; without them the middle is read and nothing is dropped.
    """
    parts_BSD = [net.task(observations.task)[:, None]]
    if net.state is not None:
        # in float32, because bfloat16 cannot tell millimeters of a workspace apart
        with torch.autocast(net.slots.device.type, enabled=False):
            bounded = observations.state.clamp(-STATE_LIMIT, STATE_LIMIT)
            state_BSD = F.linear(bounded, net.state.weight.float(), net.state.bias.float())
        parts_BSD.append(state_BSD.to(net.slots.dtype))
    for number, (encoder, images) in enumerate(zip(net.cameras, observations.images, strict=True)):
        cropped = resize_and_crop(images, config.image_size, config.crop_size, random)
        encoded_ND = encoder(cropped.flatten(0, 1).to(net.slots.dtype))
        # a camera that a robot does not have leaves its slot empty
        is_seen_BS1 = observations.is_seen[:, :, number, None]
        parts_BSD.append(encoded_ND.view(*images.shape[:2], -1) * is_seen_BS1)
    context_BSD: Tensor = net.context(torch.cat(parts_BSD, dim=1) + net.slots, random)
    return context_BSD


def shrink_images(config: LightConfig, observations: Observations) -> Observations:
    """The same with images as small as a network reads them, to keep many in memory."""
    images = tuple(
        (255 * resize(image, config.image_size)).round().to(torch.uint8)
        for image in observations.images
    )
    return replace(observations, images=images)


def light_reader(config: LightConfig, spec: ObservationSpec) -> EpisodeReader:
    """Reads observations for a network of these sizes."""
    read, resized = partial(read_observation, spec), partial(resized_reading, config, spec)
    return EpisodeReader(read, spec.history, resized)


def resized_reading(config: LightConfig, spec: ObservationSpec) -> ResizedReading | None:
    """How a dataset is read with images that are resized when they are decoded; None where no
    camera is larger than the network reads it."""
    side = config.image_size
    smaller = {size: (side, side) for size in spec.cameras.values() if min(size) >= side}
    sizes = {name: smaller.get(size, size) for name, size in spec.cameras.items()}
    if sizes == spec.cameras:
        return None
    read = partial(read_observation, replace(spec, cameras=sizes))
    return ResizedReading(read, partial(resize_frames, sizes=smaller, mode="bilinear"))


def load_for_more_tasks(net: Any, state: dict[str, Tensor]) -> None:
    """Give a network the weights of one with fewer tasks; what further tasks have stays."""
    table = net.task.weight.detach().clone()
    table[: len(state["task.weight"])] = state["task.weight"]
    net.load_state_dict({**state, "task.weight": table})
