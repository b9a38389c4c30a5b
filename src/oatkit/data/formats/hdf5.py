"""robomimic, LIBERO and robosuite demonstrations: HDF5 files with `data/demo_<n>` groups.

A folder of such files (a LIBERO suite) is one dataset with one task in each file. This is the only
file that imports h5py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.data.formats.format_table import HDF5_SUFFIXES, files_ending_in
from oatkit.data.formats.reading_errors import errors_naming
from oatkit.data.source import Camera, Feature
from oatkit.errors import DatasetError, MissingExtraError, unknown_name

try:
    import h5py
except ImportError as error:
    raise MissingExtraError("data") from error

ACTION_KEYS = (("actions",), ("action",), ("joint_velocities", "gripper_actuations"))
STATE_KEYS = (
    ("obs/robot0_eef_pos", "obs/robot0_eef_quat", "obs/robot0_gripper_qpos"),  # robomimic
    ("obs/ee_pos", "obs/ee_ori", "obs/gripper_states"),  # LIBERO
    ("states",),  # robosuite: the simulator's state
)
ROBOSUITE_HZ = {"0": 100.0, "1": 20.0}
"""Major version of robosuite to its control rate, where a file does not say another."""


class Hdf5:
    """One HDF5 file or a folder of them; see `oatkit.data.source.Source`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = files_ending_in(root, *HDF5_SUFFIXES)
        self.tasks: list[str] = []
        self._demos: list[tuple[Path, str]] = []
        self._task_of: list[int] = []
        lengths: list[int] = []
        features: dict[Path, dict[str, Feature]] = {}
        rates: set[float | None] = set()
        for path in paths:
            with _open(path) as file:
                names = _demo_names(path, file)
                features[path] = _features(file["data"][names[0]])
                task = self._task_number(_task(path, file))
                for name in names:
                    self._demos.append((path, name))
                    self._task_of.append(task)
                    lengths.append(_length(path, file, name))
                rates.add(_rate(file))
                kind = _kind(file)
                cameras = _cameras(file["data"][names[0]])
        self.format = f"{kind} HDF5"
        self.fps = rates.pop() if len(rates) == 1 else None
        self.features = _shared(root, features)
        self.episode_lengths = np.array(lengths, np.int64)
        self.episode_numbers = np.arange(len(lengths))
        self._image_keys = {_camera_name(key): key for key in cameras}
        self.cameras = {_camera_name(key): camera for key, camera in cameras.items()}
        self.action_keys = self._first_known(ACTION_KEYS) or ACTION_KEYS[0]
        self.state_keys = self._first_known(STATE_KEYS)

    def files(self) -> Sequence[Path]:
        return list(dict.fromkeys(path for path, _ in self._demos))

    def file_of(self, episode: int) -> Path:
        return self._demos[episode][0]

    def read(self, key: str) -> Iterator[NDArray[np.float32]]:
        size = self.features[key].size
        for episode, (path, name) in enumerate(self._demos):
            with _open(path) as file:
                rows = _dataset(path, file, name, key)[:].astype(np.float32)
            length = self.episode_lengths[episode]
            if rows.size != length * size:
                raise DatasetError(
                    f"{path}: {key!r} of episode {episode} ({name}) is {rows.shape}, expected "
                    f"{length} rows of {size}"
                )
            yield rows.reshape(-1, size)

    def read_task_index(self) -> Iterator[NDArray[np.int32]]:
        for task, length in zip(self._task_of, self.episode_lengths, strict=True):
            yield np.full(length, task, np.int32)

    def read_images(
        self, camera: str, episode: int, frames: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        path, name = self._demos[episode]
        wanted, inverse = np.unique(frames, return_inverse=True)
        with _open(path) as file:
            images: NDArray[np.uint8] = _dataset(path, file, name, self._image_keys[camera])[wanted]
        return images[inverse]

    def _task_number(self, task: str) -> int:
        if task not in self.tasks:
            self.tasks.append(task)
        return self.tasks.index(task)

    def _first_known(self, choices: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        return next((keys for keys in choices if all(k in self.features for k in keys)), ())


def _shared(root: Path, features: dict[Path, dict[str, Feature]]) -> dict[str, Feature]:
    """The columns that all files have alike; actions that differ are an error."""
    by_action: dict[str, list[str]] = {}
    for path, found in features.items():
        keys = next((ks for ks in ACTION_KEYS if all(k in found for k in ks)), ("actions",))
        sizes = [f"{k} {found[k].shape}" if k in found else f"no {k}" for k in keys]
        by_action.setdefault(" + ".join(sizes), []).append(path.name)
    if len(by_action) > 1:
        groups = "; ".join(f"{action}: {', '.join(names)}" for action, names in by_action.items())
        raise DatasetError(
            f"the files of {root} have different actions ({groups}): open them one by one, or put "
            "those that agree into a folder of their own"
        )
    first, *others = features.values()
    return {k: f for k, f in first.items() if all(other.get(k) == f for other in others)}


def _demo_names(path: Path, file: Any) -> list[str]:
    if not isinstance(file.get("data"), h5py.Group):
        raise DatasetError(f"{path} has no group 'data': its members are {sorted(file)}")
    names = [n for n in file["data"] if re.fullmatch(r"demo_?\d+", n)]
    groups = [n for n in names if isinstance(file["data"][n], h5py.Group)]
    if not groups:
        raise DatasetError(f"{path} holds no demonstrations data/demo_<n>")
    return sorted(groups, key=lambda name: int(re.findall(r"\d+", name)[0]))


def _features(demo: Any) -> dict[str, Feature]:
    """The number columns of a demonstration."""
    found = {}

    def visit(key: str, item: Any) -> None:
        is_column = isinstance(item, h5py.Dataset) and 1 <= item.ndim <= 3
        if is_column and item.dtype.kind in "fiub":
            feature = Feature(item.shape[1:] or (1,))
            if feature.size:
                found[key] = feature

    demo.visititems(visit)
    return found


def _cameras(demo: Any) -> dict[str, Camera]:
    return {
        f"obs/{key}": Camera(item.shape[1], item.shape[2])
        for key, item in demo.get("obs", {}).items()
        if isinstance(item, h5py.Dataset)
        and item.ndim == 4
        and item.dtype == np.uint8
        and item.shape[3] == 3
    }


def _camera_name(key: str) -> str:
    return key.removeprefix("obs/").removesuffix("_image").removesuffix("_rgb")


def _length(path: Path, file: Any, name: str) -> int:
    demo = file["data"][name]
    key = next((k for keys in ACTION_KEYS for k in keys if k in demo), None)
    if key is None:
        raise DatasetError(f"{path}: {name}: {unknown_name('column', 'actions', demo)}")
    if demo[key].ndim == 0:
        raise DatasetError(f"{path}: {name}: {key!r} is a single number")
    return len(demo[key])


def _dataset(path: Path, file: Any, name: str, key: str) -> Any:
    demo = file["data"][name]
    if key not in demo:
        raise DatasetError(f"{path}: {name}: {unknown_name('column', key, _keys(demo))}")
    return demo[key]


def _keys(demo: Any) -> list[str]:
    keys: list[str] = []
    demo.visit(keys.append)
    return keys


def _attributes(file: Any, key: str) -> dict[str, Any]:
    """A JSON attribute of `data`; empty where it is no JSON object."""
    try:
        value = json.loads(file["data"].attrs.get(key, "{}"))
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _kind(file: Any) -> str:
    attributes = file["data"].attrs
    if "problem_info" in attributes:
        return "LIBERO"
    return "robomimic" if "env_args" in attributes else "robosuite"


def _task(path: Path, file: Any) -> str:
    instruction = _attributes(file, "problem_info").get("language_instruction")
    if instruction:  # LIBERO stores it as a string or as a list of pieces
        return "".join(instruction).strip()
    name = _attributes(file, "env_args").get("env_name") or file["data"].attrs.get("env")
    return str(name or path.stem)


def _rate(file: Any) -> float | None:
    for key in ("env_args", "env_info"):
        described = _attributes(file, key)
        kwargs = described.get("env_kwargs") or described
        if kwargs.get("control_freq"):
            return float(kwargs["control_freq"])
    version = str(file["data"].attrs.get("repository_version", ""))
    return ROBOSUITE_HZ.get(version[:1])


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    with errors_naming(path), h5py.File(path, "r") as file:
        yield file
