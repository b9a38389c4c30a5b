from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

import oatkit
from oatkit import Statistics
from oatkit.data import statistics
from oatkit.data.statistics import compute_statistics
from tests.data import datasets
from tests.data.datasets import make_demos

finite = st.floats(-1e6, 1e6, width=32)
tables = st.tuples(st.integers(1, 60), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=finite)
)


@given(rows=tables, block=st.integers(1, 70))
def test_streamed_equals_numpy(rows: NDArray[np.float32], block: int) -> None:
    blocks = [rows[i : i + block] for i in range(0, len(rows), block)]
    found = compute_statistics(lambda: blocks, dim=rows.shape[1])
    exact = rows.astype(np.float64)
    scale = np.abs(exact).max(axis=0) + 1e-30
    np.testing.assert_array_equal(found.min, exact.min(axis=0))
    np.testing.assert_array_equal(found.max, exact.max(axis=0))
    assert (np.abs(found.mean - exact.mean(axis=0)) <= 1e-12 * scale).all()
    assert (np.abs(found.std - exact.std(axis=0)) <= 1e-8 * scale).all()
    # numpy interpolates in float32 here; the quantile itself is exact
    assert (np.abs(found.q01 - np.quantile(exact, 0.01, axis=0)) <= 1e-6 * scale).all()
    assert (np.abs(found.q99 - np.quantile(exact, 0.99, axis=0)) <= 1e-6 * scale).all()
    assert found.count == len(rows)


def test_a_large_offset_costs_no_digits() -> None:
    rows = (np.float32(1e6) + np.random.default_rng(0).integers(0, 3, (1000, 1))).astype(np.float32)
    found = compute_statistics(lambda: [rows], dim=1)
    np.testing.assert_allclose(found.std, rows.astype(np.float64).std(axis=0), rtol=1e-9)


def test_quantiles_of_many_rows_come_from_an_even_subsample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statistics, "MAX_ROWS_FOR_QUANTILES", 500)
    rows = np.linspace(0, 1, 10_001, dtype=np.float32)[:, None]
    blocks = [rows[:3333], rows[3333:7000], rows[7000:]]
    found = compute_statistics(lambda: blocks, dim=1)
    assert abs(found.q01[0] - 0.01) < 0.002
    assert abs(found.q99[0] - 0.99) < 0.002
    assert (found.min[0], found.max[0], found.count) == (0, 1, 10_001)


def test_no_rows() -> None:
    with pytest.raises(ValueError, match="statistics of no rows do not exist"):
        compute_statistics(lambda: [np.zeros((0, 2))], dim=2)


def test_json_has_lerobots_names_and_comes_back(tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(datasets.write_npz_file(tmp_path / "d.npz", make_demos()))
    found = dataset.action_statistics()
    values = json.loads(json.dumps(found.to_json()))
    assert set(values) == {"min", "max", "mean", "std", "q01", "q99", "count"}
    assert values["count"] == [39]
    back = Statistics.from_json(values)
    np.testing.assert_array_equal(back.std, found.std)
    assert back.count == 39


def test_quantiles_do_not_beat_with_the_length_of_episodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statistics, "MAX_ROWS_FOR_QUANTILES", 1024)
    ramp = np.tile(np.arange(32, dtype=np.float32), 1024)[:, None]
    found = compute_statistics(lambda: iter(np.array_split(ramp, 7)), dim=1)
    assert (found.q01[0], found.q99[0]) == (0, 31)
