"""robomimic, LIBERO and robosuite demonstrations: HDF5 files with `data/demo_<n>` groups.

A folder of such files (a LIBERO suite) is one dataset, a task a file. The only file that
imports h5py.
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

from oatkit.data.source import Camera, Feature
from oatkit.errors import DatasetError, MissingExtraError, unknown_name

try:
    import h5py
except ImportError as error:
    raise MissingExtraError("data") from error

ACTION_KEYS = (("actions",), ("joint_velocities", "gripper_actuations"))
STATE_KEYS = (
    ("obs/robot0_eef_pos", "obs/robot0_eef_quat", "obs/robot0_gripper_qpos"),  # robomimic
    ("obs/ee_pos", "obs/ee_ori", "obs/gripper_states"),  # LIBERO
    ("states",),  # robosuite: the simulator's state
)
ROBOSUITE_HZ = {"0": 100.0, "1": 20.0}
"""Control rate a robosuite of this major version uses unless its file says otherwise."""


class Hdf5:
    """One HDF5 file or a folder of them; see `oatkit.data.source.Source`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = [root] if root.is_file() else sorted([*root.glob("*.hdf5"), *root.glob("*.h5")])
        self.tasks: list[str] = []
        self._demos: list[tuple[Path, str]] = []
        self._task_of: list[int] = []
        lengths: list[int] = []
        shapes: dict[str, Feature] = {}
        rates: set[float | None] = set()
        for path in paths:
            with _open(path) as file:
                shapes = self._agree(path, shapes, _features(path, file))
                task = self._task_number(_task(path, file))
                for name in _demo_names(path, file):
                    self._demos.append((path, name))
                    self._task_of.append(task)
                    lengths.append(_length(path, file, name))
                rates.add(_rate(file))
                kind = _kind(file)
                cameras = _cameras(file)
        if not lengths:
            raise DatasetError(f"{root} holds no demonstrations")
        self.format = f"{kind} HDF5"
        self.fps = rates.pop() if len(rates) == 1 else None
        self.features = shapes
        self.episode_lengths = np.array(lengths, np.int64)
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

    def _agree(
        self, path: Path, known: dict[str, Feature], new: dict[str, Feature]
    ) -> dict[str, Feature]:
        """Features that all files share; an action that differs between files is an error."""
        if not known:
            return new
        for key in {k for keys in ACTION_KEYS for k in keys}:
            if known.get(key) != new.get(key):
                raise DatasetError(
                    f"{path} has {key!r} of shape {_shape(new.get(key))} but {self._demos[0][0]} "
                    f"has {_shape(known.get(key))}: open the files one by one"
                )
        return {key: feature for key, feature in known.items() if new.get(key) == feature}

    def _task_number(self, task: str) -> int:
        if task not in self.tasks:
            self.tasks.append(task)
        return self.tasks.index(task)

    def _first_known(self, choices: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        return next((keys for keys in choices if all(k in self.features for k in keys)), ())


def _demo_names(path: Path, file: Any) -> list[str]:
    if "data" not in file:
        raise DatasetError(f"{path} has no group 'data': its groups are {sorted(file)}")
    return sorted(file["data"], key=lambda name: [int(n) for n in re.findall(r"\d+", name)])


def _features(path: Path, file: Any) -> dict[str, Feature]:
    """The number columns of the first demonstration."""
    names = _demo_names(path, file)
    if not names:
        raise DatasetError(f"{path} holds no demonstrations")
    found = {}

    def visit(key: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim <= 3 and item.dtype.kind in "fiub":
            feature = Feature(item.shape[1:] or (1,))
            if feature.size:
                found[key] = feature

    file["data"][names[0]].visititems(visit)
    return found


def _cameras(file: Any) -> dict[str, Camera]:
    demo = file["data"][next(iter(file["data"]))]
    observations = demo.get("obs", {})
    return {
        f"obs/{key}": Camera(item.shape[1], item.shape[2])
        for key, item in observations.items()
        if item.ndim == 4 and item.dtype == np.uint8 and item.shape[3] == 3
    }


def _camera_name(key: str) -> str:
    return key.removeprefix("obs/").removesuffix("_image").removesuffix("_rgb")


def _length(path: Path, file: Any, name: str) -> int:
    demo = file["data"][name]
    key = next((k for keys in ACTION_KEYS for k in keys if k in demo), None)
    if key is None:
        raise DatasetError(f"{path}: {name}: {unknown_name('column', 'actions', demo)}")
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
    text = file["data"].attrs.get(key)
    return dict(json.loads(text)) if text else {}


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
        kwargs = described.get("env_kwargs", described)
        if "control_freq" in kwargs:
            return float(kwargs["control_freq"])
    version = str(file["data"].attrs.get("repository_version", ""))
    return ROBOSUITE_HZ.get(version[:1])


def _shape(feature: Feature | None) -> str:
    return "none" if feature is None else str(feature.shape)


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise DatasetError(
            f"{path} cannot be read ({str(error).splitlines()[0]}): it is truncated or damaged"
        ) from error
