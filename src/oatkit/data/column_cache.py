"""Columns of numbers decoded once to memory-mapped files.

Reading a column costs no anonymous memory however large the dataset is: its pages belong to
the file and the kernel drops them when it needs room. The cache may be deleted at any time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from oatkit.data.reading_progress import reading_progress
from oatkit.data.source import Source
from oatkit.errors import DatasetError, unknown_name
from oatkit.storage.atomic_write import atomic_write
from oatkit.storage.digest import digest, digest_bytes

VERSION = 1
ROWS_PER_BLOCK = 65_536


def default_cache_dir() -> Path:
    """`$OATKIT_CACHE`, else `$XDG_CACHE_HOME/oatkit`, else `~/.cache/oatkit`."""
    if "OATKIT_CACHE" in os.environ:
        return Path(os.environ["OATKIT_CACHE"]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "oatkit"


@dataclass(frozen=True)
class Column:
    """A decoded column.

    Attributes:
        path: File with the numbers of all rows.
        first_nonfinite_row: First row with a NaN or infinity, if any.
    """

    path: Path
    first_nonfinite_row: int | None

    def open(self) -> NDArray[Any]:
        """(rows, size), memory-mapped and read-only."""
        # A plain array over the map: np.memmap's own indexing is several times slower.
        return np.asarray(np.load(self.path, mmap_mode="r"))


class ColumnCache:
    """The columns of one source, each decoded when it is first asked for.

    The folder is named after the sizes and times of the source's files, so that a dataset that
    changes on disk is decoded again.

    Args:
        source: Dataset to decode.
        cache_dir: Folder for the decoded columns; see `default_cache_dir`.
        show_progress: Whether to show a bar while a column is decoded.
    """

    def __init__(
        self, source: Source, cache_dir: Path | None = None, *, show_progress: bool = False
    ) -> None:
        self._source = source
        self._show_progress = show_progress
        self.cache_dir = cache_dir or default_cache_dir()
        self.dir = self.cache_dir / "data" / source_key(source)

    def column(self, key: str) -> Column:
        """The feature `key`, (rows, size) float32."""
        if key not in self._source.features:
            raise DatasetError(
                f"{self._source.root}: {unknown_name('column', key, self._source.features)}"
            )
        size = self._source.features[key].size
        return self._column(key, self._source.read(key), (size,), np.dtype(np.float32))

    def task_index(self) -> Column:
        """Which task each row belongs to, (rows,) int32."""
        # a name that no column has: '%' is escaped in those
        return self._column("%tasks", self._source.read_task_index(), (), np.dtype(np.int32))

    def episode_digests(self, key: str) -> NDArray[np.uint8]:
        """(episodes, 16): a hash of each episode's rows of the column `key`."""
        path = self._path(key, ".digests.npy")
        if not path.exists():
            rows = self.column(key).open()
            ends = np.cumsum(self._source.episode_lengths)
            digests = [
                digest_bytes(rows[end - length : end].tobytes())
                for length, end in zip(self._source.episode_lengths, ends, strict=True)
            ]
            array = np.frombuffer(b"".join(digests), np.uint8)
            with atomic_write(path) as aside:
                np.save(aside, array.reshape(-1, 16))
        digests_E16: NDArray[np.uint8] = np.load(path)
        return digests_E16

    def _column(
        self,
        key: str,
        blocks: Iterator[NDArray[Any]],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> Column:
        path, facts_path = self._path(key, ".npy"), self._path(key, ".json")
        if not facts_path.exists():
            first_nonfinite = self._decode(key, blocks, path, shape, dtype)
            with atomic_write(facts_path) as aside:
                aside.write_text(json.dumps({"first_nonfinite_row": first_nonfinite}))
        return Column(path, **json.loads(facts_path.read_text()))

    def _decode(
        self,
        key: str,
        blocks: Iterator[NDArray[Any]],
        path: Path,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> int | None:
        """Stream `blocks` into `path`; gives the first row that is not finite."""
        num_rows = int(self._source.episode_lengths.sum())
        first_nonfinite: int | None = None
        row = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            atomic_write(path) as aside,
            reading_progress(key, num_rows, is_shown=self._show_progress) as advance,
        ):
            out = np.lib.format.open_memmap(aside, "w+", dtype, (num_rows, *shape))
            for block in blocks:
                if row + len(block) > num_rows:
                    raise DatasetError(f"{self._source.root}: {key!r} has too many rows")
                out[row : row + len(block)] = block
                if first_nonfinite is None:
                    first_nonfinite = _first_nonfinite(block, row)
                row += len(block)
                advance(len(block))
            if row != num_rows:
                raise DatasetError(
                    f"{self._source.root}: {key!r} has {row} rows but the episodes have {num_rows}"
                )
            out.flush()
        return first_nonfinite

    def _path(self, key: str, suffix: str) -> Path:
        name = key if key == "%tasks" else quote(key, safe="")
        return self.dir / (name + suffix)


def source_key(source: Source) -> str:
    """A name that changes when a file of the dataset changes its name, size or time."""
    about = f"{VERSION}\0{source.format}\0{source.root.resolve()}".encode()
    return digest(about, source.episode_lengths.tobytes(), *file_facts(source.files()))


def file_facts(paths: Iterable[Path]) -> Iterator[bytes]:
    """Name, size and time of each file, as parts of a digest."""
    for path in paths:
        try:
            stat = path.stat()
        except OSError as error:
            raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
        yield f"\0{path}\0{stat.st_size}\0{stat.st_mtime_ns}".encode()


def _first_nonfinite(block: NDArray[Any], row: int) -> int | None:
    is_bad = ~np.isfinite(block).reshape(len(block), -1).all(axis=1)
    return row + int(np.argmax(is_bad)) if is_bad.any() else None
