"""The encoder of observations that the light networks share."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from oatkit.data import Dataset, open_dataset
from oatkit.nn.image_encoder import resize
from oatkit.nn.sample_random import SampleRandom
from oatkit.policies import load_policy
from oatkit.policies.light.light_config import LightConfig
from oatkit.policies.light.light_model import LightModel
from oatkit.policies.light.observation_encoder import (
    encode_observations,
    load_for_more_tasks,
    resized_reading,
)
from oatkit.policies.observation.observation_reading import read_observation
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import STATE_LIMIT
from tests.policies import tiny

GOLDEN = Path(__file__).parent.parent / "golden/light"


def test_the_names_of_weights_are_those_of_the_first_version() -> None:
    names = set(load_file(GOLDEN / "model.safetensors"))
    policy = load_policy(GOLDEN)
    assert set(policy.net.state_dict()) == names
    assert json.loads((GOLDEN / "config.json").read_text())["net"] == policy.to_json()["net"]


def test_images_are_shrunk_to_what_the_network_reads(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat", dataset, cameras=("front",))
    read = policy.read(tiny.batch(policy, dataset))
    small = policy.net.shrink_images(read)
    size = policy.net.config.image_size
    assert small.images[0].shape == (3, policy.spec.history, 3, size, size)
    assert small.images[0].dtype == torch.uint8
    with torch.inference_mode():  # rounding to whole colors is all that differs
        wanted, found = policy.net.encode(read), policy.net.encode(small)
    for (keys, _), (other, _) in zip(wanted.pairs, found.pairs, strict=True):
        assert (keys - other).abs().mean() < 0.01 * keys.abs().mean()


def test_further_tasks_keep_the_weights_that_there_are(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat", dataset)
    spec = policy.spec.with_more_tasks(["fold the cloth"])
    larger = LightModel.make(policy.net.config, policy.tokenizer, spec).net
    new = larger.task.weight[-1].clone()
    load_for_more_tasks(larger, policy.net.state_dict())
    assert torch.equal(larger.task.weight[:-1], policy.net.task.weight)
    assert torch.equal(larger.task.weight[-1], new)
    assert torch.equal(larger.slots, policy.net.slots)


class Seen(torch.nn.Module):
    """Gives the slots that it is given, in place of the context transformer."""

    def forward(self, slots_BSD: Tensor, random: SampleRandom | None) -> Tensor:
        return slots_BSD


@torch.no_grad()
def test_a_dimension_that_hardly_moved_cannot_drown_the_others(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat", dataset)
    policy.net.context = Seen()
    read = policy.read(tiny.batch(policy, dataset))
    found = []
    for nudge in (STATE_LIMIT, 1200.0):
        read.state[..., 0] = nudge
        found.append(encode_observations(policy.net, policy.net.config, read))
    assert torch.equal(*found)


@torch.no_grad()
def test_states_are_read_in_float32_under_autocast(dataset: Dataset) -> None:
    """bfloat16 would make one of positions that are millimeters apart."""
    policy = tiny.make_policy("oat", dataset)
    read = policy.read(tiny.batch(policy, dataset))
    policy.net.context = Seen()
    wanted = encode_observations(policy.net, policy.net.config, read)
    with torch.autocast("cpu", torch.bfloat16):
        found = encode_observations(policy.net, policy.net.config, read)
    assert torch.equal(found, wanted)


def test_images_are_resized_when_they_are_decoded(tmp_path: Path) -> None:
    """What is trained on is what the network makes of whole images, rounded to whole colors."""
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(20, 48, 64, 3), dtype=np.uint8)
    state = rng.normal(size=(20, 4))
    found = {"action": state, "observation.state": state, "observation.images.front": images}
    np.savez(tmp_path / "data.npz", **found, episode_ends=[20])
    dataset = open_dataset(tmp_path / "data.npz")
    config, indices = LightConfig(image_size=40, crop_size=36), [0, 7, 3]
    spec = ObservationSpec.for_dataset(dataset, history=2, cameras=("front",))
    reading = resized_reading(config, spec)
    assert reading is not None
    whole = dataset.chunks(4, history=2, cameras="front").batch(indices)
    small = dataset.chunks(4, history=2, cameras="front", resize=reading.resize).batch(indices)
    (found_BSCHW,) = reading.read(small).images
    wanted_BSCHW = resize(read_observation(spec, whole).images[0], config.image_size)
    assert found_BSCHW.shape == (3, 2, 3, 40, 40)
    assert (found_BSCHW - 255 * wanted_BSCHW).abs().max() < 1.5


def test_images_that_are_small_enough_are_read_as_they_are(dataset: Dataset) -> None:
    spec = ObservationSpec.for_dataset(dataset, history=2, cameras=("front",))
    assert resized_reading(LightConfig(), spec) is None
    assert resized_reading(LightConfig(), replace(spec, cameras={})) is None
