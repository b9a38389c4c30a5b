"""Fitting: what is kept of the chunks, the basis, and which cells tokens choose."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from oatkit.tokenizers import klt_fit
from oatkit.tokenizers.klt_fit import MAX_BASIS, CellsName, TableFitter, fit_basis, thinned
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


def chosen(points_NP: Tensor, budgets: tuple[int, ...] = (1,)) -> str | int:
    """Name of the cells that the first token chooses."""
    fitter = TableFitter("auto", (8, 8), budgets)
    next(fitter.fit(points_NP, 1))
    return fitter.chosen[0]


def test_tokens_choose_vectors_for_clusters_and_not_for_noise() -> None:
    centers = 5 * noise(30, 16)
    assert isinstance(chosen(centers[torch.arange(600) % 30] + 0.1 * noise(600, 16)), int)
    assert isinstance(chosen(noise(300, 64)), str)


def test_cells_are_compared_on_all_folds() -> None:
    points = klt_fit._normalized(Paths.start(noise(1200, 16)))
    fold_N = klt_fit._folds(1200)
    tried = TableFitter("auto", (8, 8), (1,))._tried(points, fold_N, 1, torch.eye(16))
    count, *names = tried
    assert (isinstance(count, int), names) == (True, ["scalar", "product", "drawn"])
    for vectors_NP in tried.values():
        for fold in range(klt_fit.FOLDS):
            held, own_NP = points.part(fold_N == fold), vectors_NP[fold_N == fold]
            assert 0 < klt_fit.share_that_holds(own_NP, held) < 2


def test_a_token_is_chosen_by_what_later_ones_can_take_off() -> None:
    """The same error in one direction is better than in many where tokens follow."""
    points = klt_fit._normalized(Paths.start(noise(2000, 16)))
    left = torch.zeros_like(points.values)
    left[:, 0] = points.values.norm(dim=1)
    outlooks = {}
    for budgets in ((1,), (1, 4)):
        fitter = TableFitter("auto", (8, 8), budgets)
        rest = klt_fit.Points(left, points.weights, points.scale)
        none = torch.zeros_like(left)
        outlooks[budgets] = [fitter._outlook(each, none, 1) for each in (rest, points)]
    assert outlooks[1,][0] == pytest.approx(outlooks[1,][1], abs=1e-3)
    assert outlooks[1, 4][0] < outlooks[1, 4][1] - 1


@pytest.mark.parametrize("cells", ["auto", "vector", "scalar", "product", "drawn"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_chunks_are_enough(cells: CellsName, count: int) -> None:
    fitter = TableFitter(cells, (4, 2), (1, 2))
    tables = list(fitter.fit(noise(count, 3), 2))
    assert all(table.rows.isfinite().all() for table in tables)


def test_later_tokens_of_many_numbers_try_no_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    centers = 5 * noise(300, 8)
    points = centers[torch.arange(900) % 300] + 0.1 * noise(900, 8)
    monkeypatch.setattr(klt_fit, "VECTOR_TOKENS", 1)
    found = []
    for many in (900 * 8, 900 * 8 - 1):
        monkeypatch.setattr(klt_fit, "MANY_NUMBERS", many)
        fitter = TableFitter("auto", (8, 4), (1, 2))
        list(fitter.fit(points, 2))
        found.append([isinstance(name, int) for name in fitter.chosen])
    assert found == [[True, True], [True, False]]


def test_folds_are_made_of_long_blocks() -> None:
    for count in (1000, 30_000):
        changes = torch.nonzero(klt_fit._folds(count).diff()).flatten()
        assert changes.diff().min() >= klt_fit.CHUNKS_PER_BLOCK
    assert set(klt_fit._folds(8).tolist()) == set(range(klt_fit.FOLDS))


def test_vectors_are_stored_in_half_precision_without_a_loss() -> None:
    for table in TableFitter("drawn", (8, 4), (1, 2)).fit(1e-6 * noise(1000, 8), 2):
        torch.testing.assert_close(table.rows.half().float(), table.rows, rtol=0, atol=0)
        assert 0.01 < table.rows.abs().max() < 100
