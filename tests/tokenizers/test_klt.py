"""`klt`: what every token takes off, and fitting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from oatkit.tokenizers.klt import Klt, KltConfig
from tests.tokenizers.small_tokenizers import clusters, make, walks


def fitted(cells: str, count: int = 800) -> Klt:
    codec = Klt(KltConfig(4, 2, num_tokens=4, levels=(4, 4), cells=cells))  # type: ignore[arg-type]
    codec.fit(lambda: iter(clusters(count, seed=1).split(100)))
    return codec


def errors(codec: Klt, chunks: Tensor) -> list[float]:
    tokens = codec.encode(chunks)
    return [float((codec.decode(tokens.prefix(k)) - chunks).square().mean()) for k in range(5)]


@pytest.mark.parametrize("cells", ["vector", "scalar"])
def test_every_token_takes_something_off_new_chunks(cells: str) -> None:
    found = errors(fitted(cells), clusters(300, seed=2))
    assert found == sorted(found, reverse=True)
    assert found[4] < 0.02 * found[0]


def test_one_vector_finds_clusters_that_one_direction_cannot() -> None:
    unseen = clusters(300, seed=2)
    assert errors(fitted("vector"), unseen)[1] < 0.6 * errors(fitted("scalar"), unseen)[1]


def test_no_token_ever_makes_a_chunk_worse() -> None:
    """Row 0 of every table is zero, and the nearest row is taken."""
    codec, chunks = fitted("vector"), 5 * torch.randn(200, 4, 2)
    tokens = codec.encode(chunks)
    before = torch.full((200,), torch.inf)
    for k in range(5):
        error = (codec.decode(tokens.prefix(k)) - chunks).square().sum(dim=(1, 2))
        assert (error <= before + 1e-4).all()
        before = error


def test_fitting_twice_gives_the_same() -> None:
    first, second = fitted("vector"), fitted("vector")
    torch.testing.assert_close(first.tables, second.tables, rtol=0, atol=0)


@pytest.mark.parametrize("cells", ["vector", "scalar"])
@pytest.mark.parametrize("count", [1, 3, 30])
def test_fewer_chunks_than_vectors(cells: str, count: int) -> None:
    codec = fitted(cells, count)
    assert torch.isfinite(codec.decode(codec.encode(clusters(50, seed=2)))).all()


def test_progress_ends_at_one() -> None:
    seen: list[float] = []
    codec = Klt(KltConfig(4, 2, num_tokens=4, levels=(4, 4)))
    codec.fit(lambda: iter([clusters(100, seed=1)]), seen.append)
    assert seen == [0.25, 0.5, 0.75, 1.0]


def test_the_error_of_smooth_chunks_is_small() -> None:
    """RMS, normalized."""
    tokenizer = make("klt")
    decoded = tokenizer.normalizer.normalize(tokenizer.decode(tokenizer(walks())))
    error = decoded - tokenizer.normalizer.normalize(walks())
    assert np.sqrt(np.square(error).mean()) < 0.25
