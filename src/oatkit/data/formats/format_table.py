"""The one list of dataset formats, and how each is recognized on disk.

A row opens its format by a function of its own, so that a package is imported only where a dataset
needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oatkit.data.source import Opening, Source
from oatkit.errors import DatasetError

HDF5_SUFFIXES = (".hdf5", ".h5")


@dataclass(frozen=True)
class Format:
    """A dataset format.

    Attributes:
        name: Name in messages.
        layout: What a dataset of this format looks like on disk, for messages.
        find: Gives the path to open if the given one is a dataset of this format, else None.
        open: Opens that path; the second argument is what it may use for that.
    """

    name: str
    layout: str
    find: Callable[[Path], Path | None]
    open: Callable[[Path, Opening], Source]


def files_ending_in(path: Path, *suffixes: str) -> list[Path]:
    """The file itself, or the files of the folder, that end in one of the suffixes; sorted."""
    files = [path] if path.is_file() else path.glob("*")
    return sorted(file for file in files if file.suffix.lower() in suffixes)


def _find_by_suffix(*suffixes: str) -> Callable[[Path], Path | None]:
    """Recognizes a file that ends in one of the suffixes, and a folder that holds such files."""
    return lambda path: path if files_ending_in(path, *suffixes) else None


def _find_lerobot(path: Path) -> Path | None:
    return path if (path / "meta" / "info.json").is_file() else None


def _open_lerobot(path: Path, opening: Opening) -> Source:
    from oatkit.data.formats.lerobot import LeRobot

    return LeRobot(path, opening)


def _open_hdf5(path: Path, opening: Opening) -> Source:
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


def _open_zarr(path: Path, opening: Opening) -> Source:
    from oatkit.data.formats.zarr import Zarr

    return Zarr(path)


def _find_rlds(path: Path) -> Path | None:
    """A folder with features.json, a folder of one version of it, or one of its files."""
    if path.is_file():
        is_record_file = ".tfrecord" in path.name
        return path if is_record_file and (path.parent / "features.json").is_file() else None
    if (path / "features.json").is_file():
        return path
    versions = [found.parent for found in path.glob("*/features.json")]
    if len(versions) > 1:
        names = ", ".join(sorted(version.name for version in versions))
        raise DatasetError(f"{path} holds {len(versions)} RLDS datasets, {names}: name one of them")
    return versions[0] if versions else None


def _open_rlds(path: Path, opening: Opening) -> Source:
    from oatkit.data.formats.rlds import Rlds

    return Rlds(path, opening)


def _open_npz(path: Path, opening: Opening) -> Source:
    from oatkit.data.formats.npz import Npz

    return Npz(path)


FORMATS = (
    Format("LeRobot", "a folder with meta/info.json", _find_lerobot, _open_lerobot),
    Format("HDF5", "*.hdf5 with data/demo_*", _find_by_suffix(*HDF5_SUFFIXES), _open_hdf5),
    Format("zarr", "a store with meta/episode_ends", _find_zarr, _open_zarr),
    Format("RLDS", "a folder with features.json and *.tfrecord-*", _find_rlds, _open_rlds),
    Format("npz", "*.npz with an array 'action'", _find_by_suffix(".npz"), _open_npz),
)
"""The formats in the order in which they are tried."""
