"""Recorded demonstrations of robosuite, as its own tools and RoboMimic write them in HDF5.

    recordings = read_recordings(Path("demo.hdf5"), "lift")

The files hold the simulator's states. Each is put into the simulator of today, to see what an
expert would see there.

Shape letters: T step, N number in a state, E environment state (31).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from oatkit.envs.robosuite import ACTION_METERS, SCENES, Robosuite
from oatkit.errors import DatasetError, MissingExtraError
from oatkit.types.observation_keys import ENVIRONMENT_STATE

TASK_OF = {
    **{scene.name: task for task, scene in SCENES.items()},
    "PickPlace": "can",
    "NutAssembly": "square",
}
"""Robosuite's name of a task to ours; of those with several objects, the one that we have."""
DOOR_BODY = "Door_main"
DOOR_PLACE = (-0.12, -0.35, -np.pi / 2 - 0.125)
"""Middle of the x, y and angle about the vertical that robosuite draws for its door. No door is
more than 1 cm off in either direction, and 7 degrees."""


@dataclass(frozen=True, eq=False)
class Recording:
    """One demonstration.

    Attributes:
        states: What is seen before each action, (T, 31).
        closes: Whether the action closes the fingers, (T,).
        sent: How far the action sends the hand, in meters, (T, 3).
    """

    states: NDArray[np.float32]
    closes: NDArray[np.bool_]
    sent: NDArray[np.float64]

    def part(self, begin: int, end: int) -> Recording:
        """The steps from one to before another."""
        steps = slice(begin, end)
        return Recording(self.states[steps], self.closes[steps], self.sent[steps])


def recorded_task(path: Path) -> str:
    """Our name of the task that a file has demonstrations of."""
    with _data_of(path) as data:
        found = data.attrs.get("env")
        if found is None and "env_args" in data.attrs:
            found = json.loads(data.attrs["env_args"]).get("env_name")
    if found not in TASK_OF:
        raise DatasetError(
            f"{path} has demonstrations of {found}, expected one of {', '.join(TASK_OF)}"
        )
    return TASK_OF[found]


@lru_cache(maxsize=1)
def read_recordings(path: Path, task: str) -> tuple[Recording, ...]:
    """All demonstrations of a file, which is of that task."""
    environment = Robosuite(task)
    environment.reset(0)
    with _data_of(path) as data:
        names = sorted(data, key=lambda name: (len(name), name))
        if not names:
            raise DatasetError(f"{path} has no demonstrations in `data`")
        recordings = [_read(environment, data[name], f"{path}, {name}") for name in names]
    environment.close()
    return tuple(recordings)


@contextmanager
def _data_of(path: Path) -> Iterator[Any]:
    """The group `data` of a file."""
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingExtraError("data") from error
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise DatasetError(f"{path} {what}: --from-demos takes one HDF5 file of robosuite")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DatasetError(
            f"{path} is no HDF5 file, or is cut off: --from-demos takes one that robosuite or "
            "RoboMimic wrote"
        ) from error
    with file:
        if "data" not in file:
            raise DatasetError(f"{path} has no group `data`, which robosuite's demonstrations have")
        yield file["data"]


def _read(environment: Robosuite, group: Any, where: str) -> Recording:
    model = environment.model
    for key in ("states", "actions"):
        if key not in group:
            raise DatasetError(f"{where} has no `{key}`")
    states_TN, actions_TA = np.array(group["states"]), np.array(group["actions"])
    size = 1 + model.nq + model.nv  # the time comes first
    if states_TN.ndim != 2 or states_TN.shape[1] != size:
        raise DatasetError(
            f"{where} has states of shape {states_TN.shape}, expected (steps, {size}): "
            "a Panda with two fingers and the objects of the task"
        )
    if len(actions_TA) != len(states_TN) or not np.isfinite(states_TN).all():
        raise DatasetError(f"{where} has broken states: not one for each action, or not finite")
    if environment.task == "door":
        door = model.body(DOOR_BODY)
        door.pos[:2], door.quat[:] = _door_place(group)
    seen = [_see(environment, state_N) for state_N in states_TN]
    sent_T3 = ACTION_METERS * actions_TA[:, :3]
    return Recording(np.stack(seen), actions_TA[:, -1] > 0, sent_T3)


def _see(environment: Robosuite, state_N: NDArray[np.float64]) -> NDArray[np.float32]:
    """The environment state that belongs to a state of the simulator."""
    environment.place(state_N[1 : 1 + environment.model.nq])
    return environment.observe()[ENVIRONMENT_STATE]


def _door_place(group: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where a recorded door stood: x and y, and its quaternion (w, x, y, z).

    It has no joint, so the states do not say it. The recorded model does, which is in an attribute
    or, in older files, in one of the folder `models`; without it the door stands in the middle.
    """
    text = str(group.attrs.get("model_file", ""))
    file = Path(group.file.filename).parent / "models" / text
    if text.endswith(".xml") and file.is_file():
        text = file.read_text()
    try:
        bodies = ElementTree.fromstring(text).iter("body")
        (door,) = (body for body in bodies if body.get("name") == DOOR_BODY)
    except (ElementTree.ParseError, ValueError):
        x, y, angle = DOOR_PLACE
        return np.array([x, y]), np.array([np.cos(angle / 2), 0, 0, np.sin(angle / 2)])
    at = np.fromstring(door.get("pos", "0 0 0"), sep=" ")
    return at[:2], np.fromstring(door.get("quat", "1 0 0 0"), sep=" ")
