"""FSQ and VQ against vector-quantize-pytorch, and what must hold for all inputs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.nn.fsq import FiniteScalarQuantizer
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.nn.vq import VectorQuantizer

level_lists = st.lists(st.integers(2, 9), min_size=1, max_size=5)


@given(level_lists)
def test_ids_and_codes_are_a_bijection(levels: list[int]) -> None:
    quantizer = FiniteScalarQuantizer(levels)
    ids = torch.arange(quantizer.num_codes)
    codes = quantizer.codes(ids)
    assert len(codes.unique(dim=0)) == len(ids)
    assert codes.abs().max() <= 1
    torch.testing.assert_close(quantizer.join(quantizer.digits(ids)), ids)


@given(level_lists, st.integers(0, 100))
def test_every_latent_takes_a_code_and_codes_are_fixed_points(levels: list[int], seed: int) -> None:
    quantizer = FiniteScalarQuantizer(levels)
    latents = 3 * torch.randn(50, len(levels), generator=torch.Generator().manual_seed(seed))
    codes, ids = quantizer(latents)
    assert 0 <= ids.min() <= ids.max() < quantizer.num_codes
    torch.testing.assert_close(quantizer.codes(ids), codes)


def test_all_codes_are_reached() -> None:
    quantizer = FiniteScalarQuantizer([8, 5])
    grid = torch.linspace(-6, 6, 400)
    _, ids = quantizer(torch.cartesian_prod(grid, grid))
    assert len(ids.unique()) == 40


@pytest.mark.parametrize("levels", [[8, 8, 6, 5], [8, 5, 5, 5], [7, 5, 5, 5, 5], [8, 6, 5]])
def test_fsq_agrees_with_the_library_bit_for_bit(levels: list[int]) -> None:
    from vector_quantize_pytorch import FSQ

    latents = torch.randn(64, 16, len(levels), requires_grad=True)
    ours, our_ids = FiniteScalarQuantizer(levels)(latents)
    theirs, their_ids = FSQ(levels)(latents)
    assert torch.equal(ours, theirs)
    assert torch.equal(our_ids, their_ids.long())
    weight = torch.randn_like(ours)
    (our_gradient,) = torch.autograd.grad((ours * weight).sum(), latents)
    (their_gradient,) = torch.autograd.grad((theirs * weight).sum(), latents)
    torch.testing.assert_close(our_gradient, their_gradient)


@pytest.mark.parametrize("levels", [[], [8, 1]])
def test_wrong_levels(levels: list[int]) -> None:
    with pytest.raises(ValueError, match="expected one or more of at least 2"):
        FiniteScalarQuantizer(levels)


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
            quantizer.follow(latents, quantizer.ids(latents), random_of(40, step))
        points = centers + offset
        return float((quantizer.codes(quantizer.ids(points)) - points).abs().max())

    assert distance(0.0, range(1)) < 0.2, "k-means of the first batch"
    assert distance(3.0, range(0)) > 1, "not seen yet"
    assert distance(3.0, range(1, 20)) < 0.2


def test_dead_codes_revive_at_a_latent() -> None:
    quantizer = VectorQuantizer(8, 2)
    latents = torch.randn(64, 4, 2)
    quantizer.follow(latents, quantizer.ids(latents), random_of(64))
    quantizer.counts[3], quantizer.sums[3] = 0.0, 0.0
    quantizer.follow(latents, quantizer.ids(latents), random_of(64, 1))
    distance = (latents.reshape(-1, 2) - quantizer.codebook[3]).norm(dim=1).min()
    assert distance < 1e-5
    assert torch.isfinite(quantizer.codebook).all()


def test_fewer_latents_than_codes() -> None:
    quantizer = VectorQuantizer(64, 2)
    latents = torch.randn(3, 2, 2)
    quantizer.follow(latents, quantizer.ids(latents), random_of(3))
    assert torch.isfinite(quantizer.codebook).all()
    assert (quantizer(latents)[0] - latents).abs().max() < 1e-4
