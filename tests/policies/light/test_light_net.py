"""The network of the light policy: sizes, images and the loss."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from oatkit.data import Dataset
from oatkit.policies import LightConfig, LightPolicy
from tests.policies import tiny


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 0}, "num_layers is 0, expected at least 1"),
        ({"num_heads": 3}, "width 16 is not divisible by 3 heads"),
        ({"crop_size": 32}, "crop_size is 32, expected at least 33"),
        ({"image_size": 20}, "crop_size 36 exceeds image_size 20"),
    ],
)
def test_impossible_sizes_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(tiny.CONFIG, **changes)


def test_images_are_shrunk_to_what_the_network_reads(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat", dataset, cameras=("front",))
    read = policy.read(tiny.batch(policy, dataset))
    small = policy.net.shrink_images(read)
    size = policy.net.config.image_size
    assert small.images[0].shape == (3, policy.spec.history, 3, size, size)
    assert small.images[0].dtype == torch.uint8
    with torch.inference_mode():  # rounding to whole colors is all that differs
        wanted, found = policy.net.encode(read), policy.net.encode(small)
    for (keys, _), (other, _) in zip(wanted, found, strict=True):
        assert (keys - other).abs().mean() < 0.01 * keys.abs().mean()


def test_an_untrained_network_is_about_as_unsure_as_guessing(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("oat", dataset)
    torch.manual_seed(0)
    policy = LightPolicy.for_dataset(LightConfig(width=32, num_heads=2), tokenizer, dataset)
    batch = tiny.batch(policy, dataset)
    tokens = tokenizer.encode(torch.from_numpy(batch["action"]))
    loss = policy.net.loss(policy.read(batch), tokens, policy.schedule)
    assert loss.total.item() == pytest.approx(math.log(tokenizer.vocab_size), rel=0.1)
    assert loss.parts["token_loss"] is loss.total
