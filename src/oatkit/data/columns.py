"""Several cached columns read as one table: the action, or the state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.data.column_cache import Column
from oatkit.data.source import Feature
from oatkit.errors import unknown_name


class Table:
    """Columns side by side, of which only some dimensions may be kept.

    Args:
        columns: Key, feature and decoded numbers of each column.
        dims: Dimensions to keep, by index or by name; all by default.
    """

    def __init__(
        self,
        columns: Sequence[tuple[str, Feature, Column]],
        dims: Sequence[int | str] | None = None,
    ) -> None:
        self.keys = tuple(key for key, _, _ in columns)
        self.columns = tuple(column for _, _, column in columns)
        names = [name for key, feature, _ in columns for name in _dimension_names(key, feature)]
        self._dims = None if dims is None else _resolve(dims, names)
        self.names = tuple(names if self._dims is None else (names[d] for d in self._dims))
        self._arrays: list[NDArray[np.float32]] | None = None

    @property
    def dim(self) -> int:
        return len(self.names)

    @property
    def dims(self) -> tuple[int, ...] | None:
        """The kept dimensions, None for all."""
        return None if self._dims is None else tuple(int(d) for d in self._dims)

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The values at any rows: (...) -> (..., dim), a copy."""
        parts = [np.take(array, rows, axis=0) for array in self._open()]
        return self._select(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1))

    def rows(self, start: int, end: int) -> NDArray[np.float32]:
        """Rows `start` to `end`, (end - start, dim), a copy."""
        parts = [array[start:end] for array in self._open()]
        return self._select(np.concatenate(parts, axis=1))

    def _select(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        return values if self._dims is None else values[..., self._dims]

    def _open(self) -> list[NDArray[np.float32]]:
        if self._arrays is None:
            self._arrays = [column.open() for column in self.columns]
        return self._arrays

    def __getstate__(self) -> dict[str, Any]:
        """Data loader workers get the paths, not the numbers."""
        return self.__dict__ | {"_arrays": None}


def _dimension_names(key: str, feature: Feature) -> list[str]:
    if feature.names is not None:
        return list(feature.names)
    short = key.split("/")[-1].removeprefix("observation.")
    return [short] if feature.size == 1 else [f"{short}_{i}" for i in range(feature.size)]


def _resolve(dims: Sequence[int | str], names: list[str]) -> NDArray[np.int64]:
    if len(dims) == 0:
        raise ValueError("no dimensions were selected; leave them out to keep all")
    resolved = []
    for dim in dims:
        if isinstance(dim, str) and not re.fullmatch(r"-?[0-9]+", dim):
            if dim not in names:
                raise ValueError(unknown_name("dimension", dim, names))
            resolved.append(names.index(dim))
        elif -len(names) <= int(dim) < len(names):
            resolved.append(int(dim) % len(names))
        else:
            raise ValueError(f"dimension {dim} does not exist: there are {len(names)}")
    return np.array(resolved, np.int64)
