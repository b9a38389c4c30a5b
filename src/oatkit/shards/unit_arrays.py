"""Arrays that a unit writes beside its record, because they are no JSON."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.errors import ShardError
from oatkit.shards.shard_folder import ShardFolder
from oatkit.storage.atomic_write import atomic_write


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to an npz file, completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as aside, aside.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_arrays(path: Path, folder: Path, key: str) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file of a unit; a damaged file says what to do about it.

    Args:
        path: File that `write_arrays` wrote.
        folder: Folder of the run.
        key: Key of the unit.
    """
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            return dict(arrays)
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise damaged(path, folder, key) from error


def damaged(path: Path, folder: Path, key: str) -> ShardError:
    """What to raise where a file that a unit wrote is not what it was."""
    record = ShardFolder(folder).record_path(key)
    return ShardError(
        f"{path} is damaged: remove it and {record}, and the same command again makes it anew"
    )
