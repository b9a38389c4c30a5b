"""Groups of a dataset's episodes as units of work: their numbers and videos, converted.

FOLDER/episodes/000012.npz            the numbers of an episode as they are written
FOLDER/videos/000012/front.mp4        its images
FOLDER/dataset                        all of them joined
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from oatkit.data import Episode
from oatkit.data.formats.lerobot_meta import DECLARATION_PATH
from oatkit.data.lerobot_writer import LeRobotWriter
from oatkit.data.source import Feature
from oatkit.jobs.conversion_plan import ConversionPlan
from oatkit.jobs.episode_bar import episode_bar
from oatkit.jobs.episode_resampling import nearest_frames
from oatkit.shards import ShardPlan
from oatkit.shards.unit_arrays import read_arrays, write_arrays
from oatkit.storage.atomic_write import atomic_write
from oatkit.storage.records import record_from_json
from oatkit.types.observation_keys import IMAGES

PLAN_IN_DATASET = "meta/conversion.json"
EPISODES_PER_UNIT = 8
IMAGES_AT_ONCE = 32


class ConversionWork:
    """The episodes of a conversion, some at a time; see `oatkit.shards.Work`.

    Args:
        plan: What is converted, and how.
        console: Where to show a bar; nothing is shown by default.
    """

    name = "data convert"

    def __init__(self, plan: ConversionPlan, console: Console | None = None) -> None:
        self._plan = plan
        self._console = console or Console(quiet=True)
        starts = range(0, len(plan.dataset), EPISODES_PER_UNIT)
        self._starts = {f"{start:06d}": start for start in starts}
        self.settings: dict[str, Any] = plan.facts()
        self.facts: dict[str, Any] = {
            "features": {key: asdict(feature) for key, feature in plan.features().items()},
            "cameras": {
                name: {"key": f"{IMAGES}{new}", "size": [camera.height, camera.width]}
                for name, new in plan.cameras.items()
                for camera in [plan.dataset.cameras[name]]
            },
        }

    def units(self) -> Sequence[str]:
        return list(self._starts)

    def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
        dataset, num_episodes, num_frames = self._plan.dataset, 0, 0
        with episode_bar(self._console, len(dataset), "frames") as show:
            for key in keys:
                stop = min(self._starts[key] + EPISODES_PER_UNIT, len(dataset))
                converted = []
                for index in range(self._starts[key], stop):
                    converted.append(self._convert(dataset[index], folder))
                    num_episodes, num_frames = num_episodes + 1, num_frames + len(dataset[index])
                    show(f"episode {converted[-1]['number']}", num_episodes, num_frames)
                yield key, converted

    def _convert(self, episode: Episode, folder: Path) -> dict[str, Any]:
        """Write what an episode becomes, unless it is there; returns its number and task."""
        number = int(self._plan.dataset.episode_numbers[episode.index])
        for camera in self._plan.cameras:
            path = _video_path(folder, number, camera)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(path) as aside:
                    _encode_video(self._plan, episode, camera, aside)
        write_arrays(_numbers_path(folder, number), self._plan.numbers(episode))
        return {"number": number, "task": episode.task}


def merge_conversion(plan: ShardPlan, results: dict[str, Any], folder: Path) -> Path:
    """Join episodes into the dataset that `oatkit data convert` writes."""
    root = folder / "dataset"
    if root.exists():
        shutil.rmtree(root)
    cameras = plan.facts["cameras"]
    features = {
        key: record_from_json(Feature, value) for key, value in plan.facts["features"].items()
    }
    writer = LeRobotWriter(
        root,
        fps=plan.settings["fps"],
        features=features,
        cameras={camera["key"]: tuple(camera["size"]) for camera in cameras.values()},
    )
    for key, episodes in results.items():
        for episode in episodes:
            number = episode["number"]
            videos = {
                camera["key"]: _video_path(folder, number, name) for name, camera in cameras.items()
            }
            numbers = read_arrays(_numbers_path(folder, number), folder, key)
            writer.add_episode(numbers, task=episode["task"], videos=videos)
    writer.close()
    (root / PLAN_IN_DATASET).write_text(json.dumps(plan.settings, indent=2))
    if plan.settings["declare"]:
        declared = {"actions": " ".join(plan.settings["declare"])}
        (root / DECLARATION_PATH).write_text(json.dumps(declared, indent=2))
    return root


def _video_path(folder: Path, number: int, camera: str) -> Path:
    return folder / "videos" / f"{number:06d}" / f"{camera.replace('/', '%2F')}.mp4"


def _numbers_path(folder: Path, number: int) -> Path:
    return folder / "episodes" / f"{number:06d}.npz"


def _encode_video(plan: ConversionPlan, episode: Episode, camera: str, path: Path) -> None:
    from oatkit.data.video import VideoWriter

    size = plan.dataset.cameras[camera]
    frames = nearest_frames(plan.places(episode))
    with VideoWriter(path, fps=plan.fps, height=size.height, width=size.width) as writer:
        for start in range(0, len(frames), IMAGES_AT_ONCE):
            for image in episode.images(camera, frames[start : start + IMAGES_AT_ONCE].tolist()):
                writer.add(image)
