"""The encoder of observations that the light networks share."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from oatkit.data import Dataset
from oatkit.policies import load_policy
from oatkit.policies.light.observation_encoder import load_for_more_tasks
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
    larger = policy.make(policy.net.config, policy.tokenizer, spec).net
    new = larger.task.weight[-1].clone()
    load_for_more_tasks(larger, policy.net.state_dict())
    assert torch.equal(larger.task.weight[:-1], policy.net.task.weight)
    assert torch.equal(larger.task.weight[-1], new)
    assert torch.equal(larger.slots, policy.net.slots)
