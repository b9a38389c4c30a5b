"""Fitting: what is kept of the chunks, the basis, and which cells tokens choose."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from oatkit.tokenizers import klt_fit
from oatkit.tokenizers.klt_fit import MAX_BASIS, TableFitter, fit_basis, thinned
from oatkit.tokenizers.klt_paths import Paths


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_chunks_are_thinned_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(klt_fit, "MAX_CHUNKS", 100)
    chunks = torch.arange(1037.0).view(-1, 1, 1).expand(-1, 2, 3).contiguous()
    blocks = chunks.split(64)
    found = thinned(lambda: iter(blocks))
    assert len(found) <= 100
    assert found[:, 0].diff().unique().tolist() == [11]
    torch.testing.assert_close(found, chunks[::11].flatten(1), rtol=0, atol=0)


def test_no_block_is_held_on_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do copies pile up between them: what is kept is made once."""
    monkeypatch.setattr(klt_fit, "MAX_CHUNKS", 100)
    seen: list[weakref.ref[Tensor]] = []

    def blocks() -> Iterator[Tensor]:
        for _ in range(20):
            assert sum(each() is not None for each in seen) <= 1
            block = torch.zeros(64, 2, 3)
            seen.append(weakref.ref(block))
            yield block

    monkeypatch.setattr(torch, "cat", lambda parts: pytest.fail("copies of blocks were kept"))
    assert thinned(blocks).shape == (99, 6)


def test_the_basis_has_the_directions_that_the_bits_can_describe() -> None:
    few = noise(500, 3) @ noise(3, 300) + 7
    found = fit_basis(few, bits=10)
    assert found.directions.shape == (300, 3)
    left = few - found.mean
    left = left - left @ found.directions @ found.directions.T
    assert left.square().mean() < 1e-6
    assert fit_basis(noise(1000, 300), bits=3000).directions.shape[1] == MAX_BASIS
    assert fit_basis(torch.ones(5, 4), bits=10).directions.shape[1] == 1


def chosen(points_NP: Tensor) -> str | int:
    """Name of the cells that the first token chooses."""
    fitter = TableFitter("auto", (8, 8), (1,))
    tried = fitter._tried(
        klt_fit._normalized(Paths.start(points_NP)),
        klt_fit._folds(len(points_NP)),
        1,
        torch.eye(points_NP.shape[1]),
    )
    return min(tried, key=lambda name: tried[name][0])


def test_tokens_choose_vectors_for_clusters_and_not_for_noise() -> None:
    centers = 5 * noise(30, 16)
    assert isinstance(chosen(centers[torch.arange(600) % 30] + 0.1 * noise(600, 16)), int)
    assert isinstance(chosen(noise(300, 64)), str)


def test_folds_are_made_of_long_blocks() -> None:
    for count in (1000, 30_000):
        changes = torch.nonzero(klt_fit._folds(count).diff()).flatten()
        assert changes.diff().min() >= klt_fit.CHUNKS_PER_BLOCK
    assert set(klt_fit._folds(8).tolist()) == set(range(klt_fit.FOLDS))


def test_vectors_are_stored_in_half_precision_without_a_loss() -> None:
    for table in TableFitter("drawn", (8, 4), (1, 2)).fit(1e-6 * noise(1000, 8), 2):
        torch.testing.assert_close(table.rows.half().float(), table.rows, rtol=0, atol=0)
        assert 0.01 < table.rows.abs().max() < 100
