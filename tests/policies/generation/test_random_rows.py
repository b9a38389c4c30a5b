"""Random numbers of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from oatkit.policies.generation.random_rows import Generators, random_draws, random_rows
from tests.policies.tiny import seeded


@pytest.mark.parametrize("sample", [torch.rand, torch.randn])
def test_rows_with_their_own_generators_sample_as_if_alone(sample) -> None:  # type: ignore[no-untyped-def]
    def generators() -> list[torch.Generator]:
        return [torch.Generator().manual_seed(seed) for seed in (5, 6, 7)]

    together = random_rows(sample, generators(), 3, 4, 2)
    apart = torch.cat([random_rows(sample, [generator], 1, 4, 2) for generator in generators()])
    assert together.shape == (3, 4, 2)
    assert torch.equal(together, apart)
    with pytest.raises(ValueError, match="there are 3 generators for 2 rows"):
        random_rows(sample, generators(), 2, 4)


def test_one_generator_is_for_the_whole_batch() -> None:
    found = random_rows(torch.rand, torch.Generator().manual_seed(1), 2, 3)
    assert torch.equal(found, torch.rand(2, 3, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize("sample", [torch.rand, torch.randn])
@pytest.mark.parametrize("is_single", [True, False])
def test_the_first_draw_has_the_numbers_it_would_have_alone(
    sample: Callable[..., Tensor], is_single: bool
) -> None:
    def generators() -> Generators:
        return seeded(3) if is_single else [seeded(3), seeded(4)]

    alone = generators()
    wanted = random_rows(sample, alone, 2, 20)
    used = generators()
    found = random_draws(sample, used, 2, 3, 20)
    torch.testing.assert_close(found[:2], wanted, rtol=0, atol=0)
    assert len(found.unique()) > 100
    torch.testing.assert_close(random_draws(sample, generators(), 2, 3, 20), found, rtol=0, atol=0)
    # neither are later numbers of the caller's generators touched, nor later draws the same again
    after, wanted_after = (random_rows(sample, each, 2, 20) for each in (used, alone))
    torch.testing.assert_close(after, wanted_after, rtol=0, atol=0)
    assert not torch.equal(random_draws(sample, used, 2, 3, 20)[2:], found[2:])
    torch.testing.assert_close(random_draws(sample, generators(), 2, 1, 20), wanted, rtol=0, atol=0)


def test_torchs_own_generator_goes_on() -> None:
    torch.manual_seed(0)
    wanted = torch.rand(2, 5)
    torch.manual_seed(0)
    found = random_draws(torch.rand, None, 2, 2, 5)
    torch.testing.assert_close(found[:2], wanted, rtol=0, atol=0)
    assert not torch.equal(found[2:], wanted)


@pytest.mark.parametrize("is_for_rows", [False, True])
def test_numbers_are_drawn_where_their_generator_is(is_for_rows: bool) -> None:
    """torch refuses a generator of CUDA for numbers on the CPU."""
    asked = []

    def spy(*shape: int, **how: Any) -> Tensor:
        asked.append((how["generator"].device, how["device"]))
        return torch.rand(*shape, **how)

    generators = [torch.Generator(), torch.Generator()]
    random_rows(spy, generators if is_for_rows else generators[0], 2, 3)
    assert asked == [(torch.device("cpu"), torch.device("cpu"))] * (2 if is_for_rows else 1)
