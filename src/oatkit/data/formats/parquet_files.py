"""Parquet files: columns as streams of rows, and single rows of them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from oatkit.data.formats.reading_errors import errors_naming


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """A file to stream from. Its memory goes back to the system when it is closed.

    Thousands of row groups make a footer of many megabytes of small objects, which the
    allocators would keep.
    """
    with pq.ParquetFile(path, memory_map=True, pre_buffer=False) as file:
        yield file
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)


def as_rectangle(column: pa.Array, size: int) -> NDArray[np.float32] | None:
    """The column as (rows, size), or None when some row is not `size` numbers."""
    values, is_regular = column, not column.null_count
    while _is_list(values.type):
        if not pa.types.is_fixed_size_list(values.type):
            lengths = np.diff(values.offsets.to_numpy())
            is_regular &= bool((lengths == lengths[:1]).all())
        values = values.flatten()
        is_regular &= not values.null_count
    if not is_regular or len(values) != len(column) * size:
        return None
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float32)
    return numbers.reshape(len(column), size)


def first_bad_row(column: pa.Array, size: int) -> int:
    """The first row that made `as_rectangle` give None; slow, for the message only."""
    return next(i for i in range(len(column)) if as_rectangle(column.slice(i, 1), size) is None)


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def read_rows(path: Path, key: str, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Single cells of one column; reads only the row groups that hold them."""
    with errors_naming(path):
        time_ns = path.stat().st_mtime_ns
        _, group_starts = _row_groups(path, time_ns)
        groups = np.searchsorted(group_starts, rows, side="right") - 1
        return [
            _row_group(path, time_ns, int(g), key)[int(row - group_starts[g])].as_py()
            for g, row in zip(groups, rows, strict=True)
        ]


@lru_cache(maxsize=8)
def _row_groups(path: Path, mtime_ns: int) -> tuple[pq.ParquetFile, NDArray[np.int64]]:
    """An open file and the first row of each of its row groups."""
    file = pq.ParquetFile(path)
    sizes = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
    return file, np.concatenate([[0], np.cumsum(sizes)])[:-1]


@lru_cache(maxsize=4)
def _row_group(path: Path, mtime_ns: int, group: int, key: str) -> pa.ChunkedArray:
    """One column of one row group; neighboring frames usually share it."""
    return _row_groups(path, mtime_ns)[0].read_row_group(group, columns=[key]).column(key)
