"""FSQ against vector-quantize-pytorch, and what must hold for all inputs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.nn.fsq import FiniteScalarQuantizer

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
