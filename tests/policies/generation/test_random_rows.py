"""Random numbers of a batch."""

from __future__ import annotations

import pytest
import torch

from oatkit.policies.generation.random_rows import random_rows


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
