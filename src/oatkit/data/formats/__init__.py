"""The dataset formats oatkit reads, and how each is told from the others on disk.

A new format is one file with a class that has the surface of `oatkit.data.source.Source`, and
one entry in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oatkit.data.source import Fetch, Source
from oatkit.errors import DatasetError


@dataclass(frozen=True)
class Format:
    """How one format is recognized and opened; `open` imports what it needs when called."""

    name: str
    layout: str
    find: Callable[[Path], Path | None]
    """The path to open if the given one is of this format, else None."""
    open: Callable[[Path, Fetch | None], Source]


def _find_lerobot(path: Path) -> Path | None:
    return path if (path / "meta" / "info.json").is_file() else None


def _open_lerobot(path: Path, fetch: Fetch | None) -> Source:
    from oatkit.data.formats.lerobot import LeRobot

    return LeRobot(path, fetch)


HDF5_SUFFIXES = (".hdf5", ".h5")


def _find_hdf5(path: Path) -> Path | None:
    if path.is_file():
        return path if path.suffix.lower() in HDF5_SUFFIXES else None
    return path if any(p.suffix.lower() in HDF5_SUFFIXES for p in path.glob("*")) else None


def _open_hdf5(path: Path, fetch: Fetch | None) -> Source:
    from oatkit.data.formats.hdf5 import Hdf5

    return Hdf5(path)


def _find_zarr(path: Path) -> Path | None:
    """A store, or a folder that holds exactly one."""
    if path.is_file():
        return path if path.name.endswith(".zarr.zip") else None
    if (path / "meta" / "episode_ends").is_dir():
        return path
    stores = [*path.glob("*.zarr"), *path.glob("*.zarr.zip")]
    if len(stores) > 1:
        raise DatasetError(f"{path} holds {len(stores)} zarr stores: name one of them")
    return stores[0] if stores else None


def _open_zarr(path: Path, fetch: Fetch | None) -> Source:
    from oatkit.data.formats.zarr import Zarr

    return Zarr(path)


def _find_npz(path: Path) -> Path | None:
    if path.is_file():
        return path if path.suffix == ".npz" else None
    return path if any(path.glob("*.npz")) else None


def _open_npz(path: Path, fetch: Fetch | None) -> Source:
    from oatkit.data.formats.npz import Npz

    return Npz(path)


FORMATS = (
    Format("LeRobot", "a folder with meta/info.json", _find_lerobot, _open_lerobot),
    Format("HDF5", "*.hdf5 with data/demo_*", _find_hdf5, _open_hdf5),
    Format("zarr", "a store with meta/episode_ends", _find_zarr, _open_zarr),
    Format("npz", "*.npz with an array 'action'", _find_npz, _open_npz),
)
