"""What a conversion of a dataset writes: its options, checked, and the numbers of each episode.

Shape letters: T frame, A number of a column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.data import Dataset, Episode
from oatkit.data.action_transform import ActionTransform
from oatkit.data.source import Feature
from oatkit.errors import DatasetError, unknown_name
from oatkit.jobs.episode_resampling import even_times, frame_places, resampled
from oatkit.types.observation_keys import STATE

ACTION = "action"


@dataclass(frozen=True)
class Conversion:
    """What a converted dataset differs in."""

    tasks: tuple[str, ...] = ()
    """Tasks whose episodes are kept; all by default."""
    cameras: tuple[str, ...] | None = None
    """Cameras to keep, each as NAME or NAME=NEW_NAME; all by default, none without a name."""
    columns: tuple[str, ...] = ()
    """Further columns of numbers to keep, each as NAME or NAME=NEW_NAME; those of the action become
    `action`, those of the state `observation.state`."""
    resample: int | None = None
    """Frames a second of the result; those of the dataset by default. Numbers are interpolated,
    binary dimensions and images taken from the nearest frame."""
    shift_actions: int = 0
    """Take the action of so many frames later, and leave out the last frames, which have none."""
    declare: tuple[str, ...] = ()
    """How actions are to be represented by whoever opens the result, such as `relative:0-5`."""


@dataclass(frozen=True)
class ConversionPlan:
    """The conversion, checked.

    Attributes:
        dataset: The episodes that are kept.
        wanted: What was asked for.
        transform: What is done to actions; None for nothing.
        fps: Frames a second of the result.
        cameras: New name of each camera that is kept.
        columns: New key of each further column.
    """

    dataset: Dataset
    wanted: Conversion
    transform: ActionTransform | None
    fps: int
    cameras: Mapping[str, str]
    columns: Mapping[str, str]

    @classmethod
    def of(cls, dataset: Dataset, wanted: Conversion) -> ConversionPlan:
        kept = _selected(dataset, wanted)
        transform = dataset.transform
        if transform is not None:
            if transform.depends_on_start:
                raise ValueError(
                    f"{transform} depends on where a chunk starts, which a dataset does not say: "
                    "declare it with --declare, or give --actions when you train"
                )
            transform = transform.fitted(kept.action_statistics())
        cameras = list(dataset.cameras) if wanted.cameras is None else wanted.cameras
        plan = cls(
            kept,
            wanted,
            transform,
            _frame_rate(dataset, wanted),
            _renamed(cameras, dataset.cameras, "camera"),
            _renamed(wanted.columns, dataset.columns, "column"),
        )
        plan._check()
        return plan

    def _check(self) -> None:
        for name in self.cameras:
            camera = self.dataset.cameras[name]
            if camera.height % 2 or camera.width % 2:
                raise ValueError(
                    f"camera {name!r} has images of {camera.height} x {camera.width}, video needs "
                    "even sizes: leave it out with --cameras"
                )
        shift = self.wanted.shift_actions
        if shift < 0:
            raise ValueError(f"shift_actions is {shift}, expected 0 or more")
        short = np.flatnonzero(self.dataset.episode_lengths <= shift)
        if len(short):
            number = self.dataset.episode_numbers[short[0]]
            raise ValueError(
                f"episode {number} has no frames left after --shift-actions {shift}: leave it out "
                "with --episodes"
            )
        if self.wanted.declare:
            names = self.features()[STATE].names if self.dataset.state else ()
            ActionTransform.parse(self.wanted.declare, self.action_names, names or ())

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the action dimensions as they are written."""
        names = self.dataset.action.names
        return names if self.transform is None else self.transform.names(names)

    def places(self, episode: Episode) -> NDArray[np.float64]:
        """Where the frames that are written lie between those of an episode."""
        length = len(episode) - self.wanted.shift_actions
        if self.wanted.resample is None:
            return np.arange(length, dtype=np.float64)
        assert self.dataset.fps is not None
        seconds_T = even_times(length, self.dataset.fps)
        if "timestamp" in self.dataset.columns:  # as it was recorded, if the clock went on
            recorded_T = episode.column("timestamp")[:length, 0].astype(np.float64)
            seconds_T = recorded_T if (np.diff(recorded_T) > 0).all() else seconds_T
        return frame_places(seconds_T, self.fps)

    def features(self) -> dict[str, Feature]:
        """The columns as they are written."""
        names = self.action_names
        found = {ACTION: Feature((len(names),), names)}
        if self.dataset.state is not None:
            found[STATE] = Feature((self.dataset.state.dim,), self.dataset.state.names)
        for key, new in self.columns.items():
            found[new] = Feature((self.dataset.table(key).dim,), self.dataset.table(key).names)
        return found

    def numbers(self, episode: Episode) -> dict[str, NDArray[np.float32]]:
        """The columns of an episode as they are written, (T, A)."""
        number, shift = self.dataset.episode_numbers[episode.index], self.wanted.shift_actions
        actions_TA, is_step_A = episode.actions[shift:], np.zeros(self.dataset.action_dim, bool)
        columns = {
            STATE: episode.state,
            **{new: episode.column(k) for k, new in self.columns.items()},
        }
        found = {
            key: rows[: len(rows) - shift] for key, rows in columns.items() if rows is not None
        }
        for key, rows in {ACTION: actions_TA, **found}.items():
            if not np.isfinite(rows).all():
                raise DatasetError(
                    f"{key!r} of episode {number} is not finite: leave it out with --episodes"
                )
        if self.transform is not None:
            is_step_A = self.transform.is_binary()
            actions_TA = self.transform.apply(actions_TA[None])[0]
        places_N = self.places(episode)
        written = {key: resampled(rows, places_N) for key, rows in found.items()}
        return {ACTION: resampled(actions_TA, places_N, is_step_A), **written}

    def facts(self) -> dict[str, Any]:
        """All that decides what is written, as JSON values."""
        return {
            **json.loads(json.dumps(asdict(self.wanted))),
            "source": str(self.dataset.path),
            "fingerprint": self.dataset.fingerprint,
            "state": list(self.dataset.state.keys) if self.dataset.state else [],
            "actions": str(self.transform or "absolute"),
            "fps": self.fps,
        }


def _selected(dataset: Dataset, wanted: Conversion) -> Dataset:
    """The episodes that are kept."""
    if not wanted.tasks:
        return dataset
    for task in wanted.tasks:
        if task not in dataset.tasks:
            raise ValueError(unknown_name("task", task, dataset.tasks))
    is_wanted = np.array([task in wanted.tasks for task in dataset.tasks])
    is_kept = is_wanted[dataset.task_index[dataset.episode_starts]]
    if not is_kept.any():
        raise ValueError(f"no episode of {dataset.path} is left by --episodes and --tasks")
    return dataset.subset(is_kept)


def _frame_rate(dataset: Dataset, wanted: Conversion) -> int:
    rate = dataset.fps if wanted.resample is None else wanted.resample
    if dataset.fps is None:
        raise ValueError(f"{dataset.path} does not say its frames a second: give them with --fps")
    if rate is None or rate < 1 or rate != int(rate):
        raise ValueError(
            f"LeRobot has whole frames a second, not {rate:g}: give a rate with --resample"
        )
    return int(rate)


def _renamed(words: Any, known: Any, what: str) -> dict[str, str]:
    """New name of each, from NAME or NAME=NEW_NAME."""
    found: dict[str, str] = {}
    for word in words:
        name, _, new = str(word).partition("=")
        if name not in known:
            raise ValueError(unknown_name(what, name, known))
        if (new or name) in found.values() or (new or name) in (ACTION, STATE):
            raise ValueError(f"two columns would be named {new or name!r}: name one otherwise")
        found[name] = new or name
    return found
