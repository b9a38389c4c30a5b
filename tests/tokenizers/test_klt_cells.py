"""How the vectors of one token are found."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from oatkit.measure.gaussian import gaussian_distortion
from oatkit.tokenizers import klt_cells
from oatkit.tokenizers.klt_cells import (
    Vectors,
    drawn_cells,
    principal_directions,
    product_cells,
    scalar_cells,
    vector_cells,
    water_level,
)

NUM_ROWS = 60


def points(count: int = 3000) -> tuple[Tensor, Tensor]:
    """Gaussian points (N, 6) with variances 4, 1, ... along mixed directions, and equal weights."""
    generator = torch.Generator().manual_seed(0)
    mixed = torch.linalg.qr(torch.randn(6, 6, generator=generator)).Q
    values = torch.randn(count, 6, generator=generator) * torch.tensor([4, 2, 1, 0.5, 0.1, 0.0])
    return values @ mixed, torch.ones(count)


def make(name: str, values: Tensor, weights: Tensor) -> Vectors:
    variances, directions = principal_directions(values, weights)
    if name == "vector":
        return vector_cells(values, weights, NUM_ROWS, directions[:, :3], 3)
    if name == "scalar":
        return scalar_cells(values, weights, (5, 4, 3))
    if name == "product":
        return product_cells(values, weights, NUM_ROWS, variances, directions)
    return drawn_cells(values, weights, NUM_ROWS, variances, directions, seed=0)


@pytest.mark.parametrize("name", ["vector", "scalar", "product", "drawn"])
def test_vectors_fill_the_vocabulary_and_take_most_off(name: str) -> None:
    values, weights = points()
    found = make(name, values, weights)
    assert found.rows.shape[0] == NUM_ROWS
    gram = found.directions.T @ found.directions
    torch.testing.assert_close(gram, torch.eye(len(gram)), rtol=0, atol=1e-4)
    left = (values - found.of(values)).square().mean()
    assert left < 0.35 * values.square().mean()


@pytest.mark.parametrize("name", ["vector", "scalar", "product"])
def test_a_weight_of_two_is_a_point_given_twice(name: str) -> None:
    values, weights = points(400)
    weights[100:200] = 2
    found = make(name, values, weights).of(values)
    twice = make(name, torch.cat([values, values[100:200]]), torch.ones(500)).of(values)
    errors = [float(((values - x).square().sum(dim=1) * weights).sum()) for x in (found, twice)]
    assert errors[0] == pytest.approx(errors[1], rel=0.15)


@pytest.mark.parametrize(("num_cells", "wanted"), [(2, [0.798]), (4, [0.453, 1.510])])
def test_cells_of_a_gaussian_are_those_of_max(num_cells: int, wanted: list[float]) -> None:
    values = torch.erfinv((torch.arange(20_000) + 0.5) / 10_000 - 1) * math.sqrt(2)
    centers = klt_cells._centers(values, torch.ones(20_000), num_cells)
    torch.testing.assert_close(centers[num_cells // 2 :], torch.tensor(wanted), atol=2e-3, rtol=0)


def test_more_cells_where_the_variance_is_larger() -> None:
    levels = klt_cells._levels(torch.tensor([16.0, 4.0, 1.0, 1e-6]), 128)
    assert levels == sorted(levels, reverse=True)
    assert 64 < math.prod(levels) <= 128
    assert len(levels) == 3


def test_the_water_level_is_that_of_the_gaussian_reference() -> None:
    variances = torch.tensor([16.0, 4.0, 1.0, 0.5, 0.01])
    for bits in (0.5, 3.0, 10.0, 40.0):
        level = water_level(variances, bits)
        wanted = gaussian_distortion(variances.double().numpy(), bits)
        assert float(variances.clamp(max=level).mean()) == pytest.approx(wanted, rel=1e-5)
    assert water_level(torch.zeros(3), 5.0) == 0


def test_rows_that_nobody_uses_move_to_where_error_is() -> None:
    """Half of the points are one and the same, so that rows which begin there are not used."""
    values = torch.cat([torch.zeros(500, 2), torch.randn(500, 2)])
    found = vector_cells(values, torch.ones(1000), 40, torch.eye(2), 3)
    used = torch.unique(klt_cells.nearest(values, found.rows)[0])
    assert len(used) >= 38


def test_nothing_to_describe() -> None:
    for name in ("vector", "scalar", "product", "drawn"):
        found = make(name, torch.zeros(50, 6), torch.ones(50))
        assert torch.isfinite(found.rows).all()
        assert found.of(torch.zeros(3, 6)).abs().max() < 1e-6


def test_turned_vectors_keep_their_lengths_and_lie_nearer_to_gaussian_points() -> None:
    values, weights = points()
    how = (values, weights, NUM_ROWS, *principal_directions(values, weights))
    found = drawn_cells(*how, seed=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(klt_cells, "GAUSSIAN_ROUNDS", 0)
        drawn = drawn_cells(*how, seed=0)
    change = found.rows[1:].norm(dim=1) / drawn.rows[1:].norm(dim=1)
    assert change.max() < 1.001
    assert (change - 1).abs().median() < 1e-4
    errors = [(each.of(values) - values).square().mean() for each in (found, drawn)]
    assert errors[0] < errors[1]
