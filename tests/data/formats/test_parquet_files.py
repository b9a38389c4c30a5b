from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.data.formats.parquet_files import (
    as_rectangle,
    first_bad_row,
    open_parquet,
    read_rows,
)


@given(num_rows=st.integers(0, 9), size=st.integers(1, 4), start=st.integers(0, 3))
def test_every_kind_of_list_is_read_alike(num_rows: int, size: int, start: int) -> None:
    rows_NA = np.arange(num_rows * size, dtype=np.float32).reshape(num_rows, size)
    for kind in (
        pa.list_(pa.float32()),
        pa.large_list(pa.float64()),
        pa.list_(pa.float32(), size),
    ):
        column = pa.array(rows_NA.tolist(), kind).slice(start)
        np.testing.assert_array_equal(as_rectangle(column, size), rows_NA[start:])


def test_numbers_without_a_list_are_one_column() -> None:
    found = as_rectangle(pa.array([1, 2, 3]), 1)
    np.testing.assert_array_equal(found, [[1], [2], [3]])


@pytest.mark.parametrize("bad", [[1.0], [1.0, 2.0, 3.0], [1.0, None], None])
def test_a_row_of_another_size_is_found(bad: Any) -> None:
    column = pa.array([[1.0, 2.0], [3.0, 4.0], bad, [5.0, 6.0]], pa.list_(pa.float32()))
    assert as_rectangle(column, 2) is None
    assert first_bad_row(column, 2) == 2


def test_single_rows_are_read_across_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    cells = [{"bytes": bytes([i])} for i in range(23)]
    pq.write_table(pa.table({"image": cells}), path, row_group_size=5)
    wanted = np.array([22, 0, 4, 5, 5])
    assert read_rows(path, "image", wanted) == [cells[i] for i in wanted]


def test_an_open_file_streams_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"a": list(range(10)), "b": [0] * 10}), path)
    with open_parquet(path) as file:
        batches = [batch.column("a").to_pylist() for batch in file.iter_batches(4, columns=["a"])]
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
