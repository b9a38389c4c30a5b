"""VQ against vector-quantize-pytorch, and how the codebook follows the data."""

from __future__ import annotations

import torch

from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.nn.vq import VectorQuantizer


def random_of(batch_size: int, step: int = 0) -> SampleRandom:
    return SampleRandom(sample_keys(0, step, torch.arange(batch_size)))


def test_vq_looks_up_as_the_library_does() -> None:
    from vector_quantize_pytorch import VectorQuantize

    ours = VectorQuantizer(32, 6)
    theirs = VectorQuantize(6, 32)
    ours.codebook.copy_(torch.randn(32, 6))
    theirs._codebook.embed.data.copy_(ours.codebook[None])
    theirs.eval()
    latents = torch.randn(5, 7, 6)
    codes, ids, _ = theirs(latents)
    assert torch.equal(ours.ids(latents), ids)
    torch.testing.assert_close(ours(latents)[0], codes)


def test_the_codebook_starts_at_the_data_and_follows_it() -> None:
    centers = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    quantizer = VectorQuantizer(16, 2, decay=0.5)

    def distance(offset: float, steps: range) -> float:
        """How far the centers are from their codes after training on what lies around them."""
        for step in steps:
            noise = 0.1 * torch.randn(40, 4, 2, generator=torch.Generator().manual_seed(step))
            latents = centers + noise + offset
            quantizer.update(latents, quantizer.ids(latents), random_of(40, step))
        points = centers + offset
        return float((quantizer.codes(quantizer.ids(points)) - points).abs().max())

    assert distance(0.0, range(1)) < 0.2, "k-means of the first batch"
    assert distance(3.0, range(0)) > 1, "not seen yet"
    assert distance(3.0, range(1, 20)) < 0.2


def test_dead_codes_revive_at_a_latent() -> None:
    quantizer = VectorQuantizer(8, 2)
    latents = torch.randn(64, 4, 2)
    quantizer.update(latents, quantizer.ids(latents), random_of(64))
    quantizer.counts[3], quantizer.sums[3] = 0.0, 0.0
    quantizer.update(latents, quantizer.ids(latents), random_of(64, 1))
    distance = (latents.reshape(-1, 2) - quantizer.codebook[3]).norm(dim=1).min()
    assert distance < 1e-5
    assert torch.isfinite(quantizer.codebook).all()


def test_fewer_latents_than_codes() -> None:
    quantizer = VectorQuantizer(64, 2)
    latents = torch.randn(3, 2, 2)
    quantizer.update(latents, quantizer.ids(latents), random_of(3))
    assert torch.isfinite(quantizer.codebook).all()
    assert (quantizer(latents)[0] - latents).abs().max() < 1e-4


def test_nearest_codes_are_the_same_under_autocast() -> None:
    """A product in bfloat16 would choose others, the more the farther latents are from zero."""
    torch.manual_seed(0)
    quantizer = VectorQuantizer(64, 8)
    quantizer.codebook.copy_(3 + torch.randn(64, 8))
    latents = 3 + torch.randn(50, 4, 8)
    with torch.autocast("cpu", torch.bfloat16):
        found = quantizer.ids(latents)
    assert torch.equal(found, quantizer.ids(latents))
