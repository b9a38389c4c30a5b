"""`acodec`: a codebook that follows the latents of training."""

from __future__ import annotations

import pytest
import torch

from oatkit.tokenizers.acodec import Acodec, AcodecConfig
from oatkit.tokenizers.codec import ChangesAfterStep
from oatkit.types import Schedule
from tests.tokenizers.small_tokenizers import loss_of, random_of

SMALL = {"width": 16, "num_layers": 1, "num_heads": 2, "codebook_size": 8, "latent_dim": 4}


def small() -> Acodec:
    torch.manual_seed(0)
    return Acodec(AcodecConfig(horizon=6, action_dim=2, num_tokens=3, **SMALL))


def same(tensor: torch.Tensor) -> torch.Tensor:
    """What `gather` is for one process."""
    return tensor


def test_the_codebook_follows_the_latents_of_the_step() -> None:
    codec, chunks = small(), torch.rand(12, 6, 2)
    assert isinstance(codec, ChangesAfterStep)
    loss_of(codec, chunks)
    codec.after_step(same, random_of(chunks))
    wanted = small()
    latents = wanted._latents(chunks)
    wanted.quantizer.update(latents, wanted.quantizer.ids(latents), random_of(chunks))
    torch.testing.assert_close(codec.quantizer.codebook, wanted.quantizer.codebook, rtol=0, atol=0)
    assert codec.quantizer.is_started


def test_a_batch_in_parts_moves_the_codebook_like_the_whole_batch() -> None:
    chunks = torch.rand(12, 6, 2)
    whole, parted = small(), small()
    for step in range(3):
        loss_of(whole, chunks)
        for part in chunks.split(4):
            loss_of(parted, part)
        for codec in (whole, parted):
            codec.after_step(same, random_of(chunks, step))
    torch.testing.assert_close(parted.quantizer.codebook, whole.quantizer.codebook)


def test_every_process_gives_its_latents() -> None:
    chunks = torch.rand(12, 6, 2)
    alone, first, second = small(), small(), small()
    loss_of(alone, chunks)
    alone.after_step(same, random_of(chunks))
    for codec, part in zip((first, second), chunks.split(6), strict=True):
        loss_of(codec, part)
    given = [codec._latents_of_step[0] for codec in (first, second)]
    for codec in (first, second):
        codec.after_step(lambda _: torch.cat(given), random_of(chunks))
        torch.testing.assert_close(codec.quantizer.codebook, alone.quantizer.codebook)


def test_nothing_follows_what_was_not_trained_on() -> None:
    codec, chunks = small(), torch.rand(4, 6, 2)
    with torch.no_grad():
        loss_of(codec, chunks)
    codec.after_step(same, random_of(chunks))
    assert not codec.quantizer.is_started


def test_all_tokens_come_at_once() -> None:
    assert small().schedule == Schedule.one_shot(3)
    with pytest.raises(ValueError, match="latent_dim is 0, expected at least 1"):
        AcodecConfig(horizon=6, action_dim=2, latent_dim=0)
    with pytest.raises(ValueError, match="width 16 is not divisible by 3 heads"):
        AcodecConfig(horizon=6, action_dim=2, width=16, num_heads=3)
