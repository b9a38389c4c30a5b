"""LeRobot's own loader opens what we write, and we open what it writes.

Run by `make test-lerobot`, in an environment that has LeRobot.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import oatkit
from tests.data import datasets
from tests.data.datasets import CAMERA, make_demos

pytest.importorskip("lerobot", reason="LeRobot lives in an environment of its own")


def open_with_lerobot(root: Path, **options: object):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset("local/demos", root=root, **options)


@pytest.fixture
def demos() -> list[datasets.Demo]:
    return [replace(d, task=t) for d, t in zip(make_demos((12, 9, 20)), "aba", strict=True)]


@pytest.mark.parametrize("codec", [None, "av1", "h264"])
def test_frames_tasks_and_statistics(
    codec: str | None, demos: list[datasets.Demo], tmp_path: Path
) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", demos, codec=codec)
    theirs = open_with_lerobot(root, video_backend="pyav")
    assert (theirs.num_episodes, theirs.num_frames, theirs.fps) == (3, 41, 10)
    rows = [(d, t) for d in demos for t in range(len(d.actions))]
    for index in (0, 5, 11, 12, 20, 21, 40):
        item, (demo, t) = theirs[index], rows[index]
        np.testing.assert_array_equal(item["action"].numpy(), demo.actions[t])
        np.testing.assert_array_equal(item["observation.state"].numpy(), demo.state[t])
        assert item["task"] == demo.task
        if codec:
            image = item[CAMERA].numpy() * 255
            assert image.shape == (3, datasets.HEIGHT, datasets.WIDTH)
            assert np.abs(image - demo.images()[t].transpose(2, 0, 1)).mean() < 1.5
    ours = oatkit.open_dataset(root).action_statistics()
    np.testing.assert_allclose(theirs.meta.stats["action"]["mean"], ours.mean)
    np.testing.assert_allclose(theirs.meta.stats["action"]["std"], ours.std)


def test_every_value_of_what_oatkit_data_make_wrote(made_by_oatkit: Path) -> None:
    pytest.importorskip("metaworld", reason="makes the demonstrations")
    theirs = open_with_lerobot(made_by_oatkit, video_backend="pyav")
    ours = oatkit.open_dataset(made_by_oatkit)
    assert (theirs.num_episodes, theirs.num_frames) == (2, ours.num_frames)
    index = 0
    for episode in ours:
        images = episode.images("corner2")
        for t in range(len(episode.actions)):
            item = theirs[index]
            np.testing.assert_array_equal(item["action"].numpy(), episode.actions[t])
            np.testing.assert_array_equal(item["observation.state"].numpy(), episode.state[t])
            seen = item["observation.images.corner2"].numpy().transpose(1, 2, 0) * 255
            assert np.abs(seen - images[t]).max() <= 1  # two readers of one video round alike
            assert (item["task"], item["frame_index"]) == (episode.task, t)
            assert item["timestamp"] == pytest.approx(t / theirs.fps, abs=1e-4)
            index += 1
    for name, found in (("action", ours.action_statistics()), ("state", ours.state_statistics())):
        stats = theirs.meta.stats[name if name == "action" else f"observation.{name}"]
        for key in ("min", "max", "mean", "std"):
            np.testing.assert_allclose(stats[key], getattr(found, key), err_msg=key)


def test_chunks_agree(demos: list[datasets.Demo], tmp_path: Path) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", demos)
    theirs = open_with_lerobot(root, delta_timestamps={"action": [t / 10 for t in range(8)]})
    ours = oatkit.open_dataset(root).chunks(8)
    assert len(ours) == len(theirs)
    for index in range(len(ours)):
        np.testing.assert_array_equal(theirs[index]["action"].numpy(), ours[index]["action"])
        np.testing.assert_array_equal(
            theirs[index]["action_is_pad"].numpy(), ours[index]["action_is_pad"]
        )


def write_with_lerobot(root: Path, demos: list[datasets.Demo]) -> Path:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    features = {
        "observation.state": {"dtype": "float32", "shape": (2,), "names": ["p", "q"]},
        "action": {"dtype": "float32", "shape": (3,), "names": ["x", "y", "z"]},
        CAMERA: {
            "dtype": "video",
            "shape": (datasets.HEIGHT, datasets.WIDTH, 3),
            "names": ["height", "width", "channels"],
        },
    }
    writer = LeRobotDataset.create("local/demos", datasets.FPS, features, root=root)
    for demo in demos:
        for action, state, image in zip(demo.actions, demo.state, demo.images(), strict=True):
            frame = {"action": action, "observation.state": state, CAMERA: image}
            writer.add_frame(frame | {"task": demo.task})
        writer.save_episode()
    writer.finalize()
    return root


def test_what_lerobot_writes_is_read(tmp_path: Path) -> None:
    demos = make_demos((6, 9))
    root = write_with_lerobot(tmp_path / "d", demos)
    for episode, demo in zip(oatkit.open_dataset(root), demos, strict=True):
        np.testing.assert_array_equal(episode.actions, demo.actions)
        np.testing.assert_array_equal(episode.state, demo.state)
        error = np.abs(episode.images("front").astype(int) - demo.images())
        assert error.mean() < 1.5


def columns(root: Path, name: str) -> dict[str, str]:
    """Types by column; LeRobot 0.6 writes statistics of integers as floats, 0.4 as integers."""
    found = {f.name: str(f.type) for f in pq.read_schema(root / name)}
    return {
        n: t.replace("int64", "double") if n.startswith("stats/") else t for n, t in found.items()
    }


def description(root: Path) -> tuple[dict[str, Any], set[str]]:
    """All of info.json, and the names of what it says about the video, which 0.6 extends by how it
    was encoded."""
    info = json.loads((root / "meta/info.json").read_text())
    video = info["features"][CAMERA].pop("info")
    return info, {f"{name}: {value}" for name, value in video.items()}


def test_the_files_have_lerobots_columns(tmp_path: Path) -> None:
    """Column by column, and all of info.json, against what LeRobot writes for the same demos."""
    demos = make_demos((6, 9))
    ours = datasets.write_lerobot_v3(tmp_path / "ours", demos, codec="av1")
    theirs = write_with_lerobot(tmp_path / "theirs", demos)
    for name in ("data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet"):
        assert columns(ours, name) == columns(theirs, name)
    (our_info, our_video), (info, video) = description(ours), description(theirs)
    assert our_info == info
    assert our_video - video <= {
        "video.is_depth_map: False"
    }  # "is_depth_map" in 0.6, which reads both
