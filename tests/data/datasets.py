"""Writes the same small demonstrations in every format, each by the format's own rules."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from numpy.typing import NDArray
from PIL import Image

from oatkit.data.lerobot_writer import LeRobotWriter
from oatkit.data.source import Feature
from oatkit.data.video import VideoWriter
from tests.data import rlds_writer

FPS = 10
HEIGHT, WIDTH = 48, 64
CAMERA = "observation.images.front"


@dataclass(frozen=True)
class Demo:
    """One episode: actions (T, 3), state (T, 2), and a task."""

    actions: NDArray[np.float32]
    state: NDArray[np.float32]
    task: str = "stack the cups"

    def images(self) -> NDArray[np.uint8]:
        """(T, H, W, 3): frame t is grey with value 20 + 3 t, so that frames can be told apart."""
        shade = 20 + 3 * np.arange(len(self.actions), dtype=np.uint8)
        return np.broadcast_to(shade[:, None, None, None], (len(shade), HEIGHT, WIDTH, 3)).copy()


def make_demos(lengths: tuple[int, ...] = (12, 7, 20), *, seed: int = 0) -> list[Demo]:
    rng = np.random.default_rng(seed)
    return [
        Demo(
            rng.normal(size=(length, 3)).astype(np.float32),
            rng.normal(size=(length, 2)).astype(np.float32),
        )
        for length in lengths
    ]


def write_lerobot_v3(root: Path, demos: list[Demo], *, codec: str | None = None) -> Path:
    """By our own writer; with videos when a codec is named."""
    cameras = {CAMERA: (HEIGHT, WIDTH)} if codec else {}
    writer = LeRobotWriter(
        root,
        fps=FPS,
        features={
            "observation.state": Feature((2,), ("p", "q")),
            "action": Feature((3,), ("x", "y", "z")),
        },
        cameras=cameras,
    )
    for index, demo in enumerate(demos):
        videos = {}
        if codec:
            path = root.with_name(f"{root.name}-{index}.mp4")
            with VideoWriter(path, fps=FPS, height=HEIGHT, width=WIDTH, codec=codec) as video:
                for image in demo.images():
                    video.add(image)
            videos = {CAMERA: path}
        columns = {"observation.state": demo.state, "action": demo.actions}
        writer.add_episode(columns, task=demo.task, videos=videos)
    writer.close()
    return root


def write_lerobot_v21(root: Path, demos: list[Demo], *, codec: str | None = None) -> Path:
    """One parquet (and mp4) an episode; lists are of variable size as older files have them."""
    (root / "meta").mkdir(parents=True)
    tasks = list(dict.fromkeys(demo.task for demo in demos))
    row = 0
    for index, demo in enumerate(demos):
        length = len(demo.actions)
        table = pa.table(
            {
                "observation.state": pa.array(demo.state.tolist(), pa.list_(pa.float32())),
                "action": pa.array(demo.actions.tolist(), pa.list_(pa.float32())),
                "timestamp": pa.array(np.arange(length) / FPS, pa.float32()),
                "frame_index": np.arange(length),
                "episode_index": np.full(length, index),
                "index": row + np.arange(length),
                "task_index": np.full(length, tasks.index(demo.task)),
            }
        )
        row += length
        path = root / f"data/chunk-000/episode_{index:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        if codec:
            video_path = root / f"videos/chunk-000/{CAMERA}/episode_{index:06d}.mp4"
            video_path.parent.mkdir(parents=True, exist_ok=True)
            with VideoWriter(video_path, fps=FPS, height=HEIGHT, width=WIDTH, codec=codec) as video:
                for image in demo.images():
                    video.add(image)
    _write_lines(
        root / "meta/episodes.jsonl",
        [
            {"episode_index": i, "tasks": [demo.task], "length": len(demo.actions)}
            for i, demo in enumerate(demos)
        ],
    )
    _write_lines(
        root / "meta/tasks.jsonl", [{"task_index": i, "task": t} for i, t in enumerate(tasks)]
    )
    info = {
        "codebase_version": "v2.1",
        "fps": FPS,
        "chunks_size": 1000,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": (
            "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
        ),
        "features": _features("video" if codec else None),
    }
    (root / "meta/info.json").write_text(json.dumps(info))
    return root


def write_lerobot_v3_images(root: Path, demos: list[Demo]) -> Path:
    """v3.0 with PNG images inside the parquet files, several row groups to a file."""
    write_lerobot_v3(root, demos)
    info_path = root / "meta/info.json"
    info = json.loads(info_path.read_text())
    info["features"] = _features("image")
    info_path.write_text(json.dumps(info))
    path = root / "data/chunk-000/file-000.parquet"
    images = [{"bytes": _png(image), "path": None} for demo in demos for image in demo.images()]
    table = pq.read_table(path).append_column(CAMERA, pa.array(images))
    pq.write_table(table, path, row_group_size=5)
    return root


def split_v3_data(root: Path, num_rows: list[int]) -> None:
    """Move the rows of the one data file to several, as a large dataset has them.

    Args:
        root: Dataset of LeRobot v3.0.
        num_rows: Rows of each file; a file ends where an episode does.
    """
    folder = root / "data/chunk-000"
    table = pq.read_table(folder / "file-000.parquet")
    ends = np.cumsum(num_rows)
    for number, (end, count) in enumerate(zip(ends, num_rows, strict=True)):
        pq.write_table(table.slice(end - count, count), folder / f"file-{number:03d}.parquet")
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    rows = pq.read_table(path).to_pylist()
    for row in rows:
        row["data/file_index"] = int(np.searchsorted(ends, row["dataset_from_index"], "right"))
    pq.write_table(pa.Table.from_pylist(rows), path)


def write_robomimic(path: Path, demos: list[Demo], *, images: bool = False) -> Path:
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        environment = {"env_name": demos[0].task, "env_kwargs": {"control_freq": FPS}}
        data.attrs["env_args"] = json.dumps(environment)
        for index, demo in enumerate(demos):
            group = data.create_group(f"demo_{index}")
            group["actions"] = demo.actions.astype(np.float64)
            group["states"] = demo.state
            group["obs/object"] = demo.state
            if images:
                group["obs/front_image"] = demo.images()
    return path


def write_libero(folder: Path, demos: list[Demo], *, images: bool = False) -> Path:
    """A suite: a file for each task."""
    folder.mkdir(parents=True)
    for number, task in enumerate(dict.fromkeys(demo.task for demo in demos)):
        path = folder / f"task_{number}_demo.hdf5"
        write_robomimic(path, [d for d in demos if d.task == task], images=images)
        with h5py.File(path, "a") as file:
            file["data"].attrs["problem_info"] = json.dumps({"language_instruction": [*task]})
    return folder


def write_zarr(path: Path, demos: list[Demo], *, images: bool = False) -> Path:
    group = zarr.open_group(str(path), mode="w", zarr_format=2)
    arrays = {
        "data/action": np.concatenate([d.actions for d in demos]),
        "data/state": np.concatenate([d.state for d in demos]),
        "meta/episode_ends": np.cumsum([len(d.actions) for d in demos]),
    }
    if images:
        arrays["data/front"] = np.concatenate([d.images() for d in demos])
    for name, values in arrays.items():
        chunks = (5, *values.shape[1:])
        array = group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=chunks)
        array[:] = values
    return path


def write_npz_folder(folder: Path, demos: list[Demo], *, images: bool = False) -> Path:
    folder.mkdir(parents=True)
    for index, demo in enumerate(demos):
        more = {CAMERA: demo.images()} if images else {}
        np.savez(
            folder / f"{index:04d}.npz",
            **{"action": demo.actions, "observation.state": demo.state, "fps": FPS},
            task=demo.task,
            **more,
        )
    return folder


def write_npz_file(path: Path, demos: list[Demo], *, images: bool = False) -> Path:
    more = {CAMERA: np.concatenate([d.images() for d in demos])} if images else {}
    np.savez_compressed(
        path,
        **{
            "action": np.concatenate([d.actions for d in demos]),
            "observation.state": np.concatenate([d.state for d in demos]),
        },
        episode_ends=np.cumsum([len(d.actions) for d in demos]),
        task=[d.task for d in demos],
        fps=FPS,
        **more,
    )
    return path


def write_rlds(folder: Path, demos: list[Demo], *, images: bool = False) -> Path:
    """Two TFRecord files, as TensorFlow Datasets writes them."""
    observation = {"state": rlds_writer.tensor(2)}
    if images:
        observation["front"] = rlds_writer.image(HEIGHT, WIDTH)
    described = {
        "action": rlds_writer.tensor(3),
        "is_first": rlds_writer.tensor(dtype="bool"),
        "language_instruction": rlds_writer.text(),
        "observation": observation,
    }
    episodes = [
        {
            "action": demo.actions,
            "is_first": (np.arange(len(demo.actions)) == 0).astype(np.int64),
            "language_instruction": [demo.task.encode()] * len(demo.actions),
            "observation/state": demo.state,
            **({"observation/front": [_png(one) for one in demo.images()]} if images else {}),
        }
        for demo in demos
    ]
    return rlds_writer.write_rlds(folder / "1.0.0", described, episodes).parent


def truncate(path: Path, share: float = 0.6) -> None:
    """Leave only the first bytes of a file."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


WRITERS: dict[str, Callable[[Path, list[Demo]], Path]] = {
    "lerobot-v3": lambda folder, demos: write_lerobot_v3(folder / "v3", demos),
    "lerobot-v2.1": lambda folder, demos: write_lerobot_v21(folder / "v21", demos),
    "robomimic": lambda folder, demos: write_robomimic(folder / "demos.hdf5", demos),
    "libero": lambda folder, demos: write_libero(folder / "suite", demos),
    "zarr": lambda folder, demos: write_zarr(folder / "stack the cups.zarr", demos),
    "rlds": lambda folder, demos: write_rlds(folder / "cups", demos),
    "npz-folder": lambda folder, demos: write_npz_folder(folder / "episodes", demos),
    "npz-file": lambda folder, demos: write_npz_file(folder / "all.npz", demos),
}

IMAGE_WRITERS: dict[str, Callable[[Path, list[Demo]], Path]] = {
    "lerobot-v3-av1": lambda folder, demos: write_lerobot_v3(folder / "v3", demos, codec="av1"),
    "lerobot-v3-h264": lambda folder, demos: write_lerobot_v3(folder / "v3", demos, codec="h264"),
    "lerobot-v3-png": lambda folder, demos: write_lerobot_v3_images(folder / "v3", demos),
    "lerobot-v2.1-h264": lambda f, demos: write_lerobot_v21(f / "v21", demos, codec="h264"),
    "robomimic": lambda folder, demos: write_robomimic(folder / "d.hdf5", demos, images=True),
    "libero": lambda folder, demos: write_libero(folder / "suite", demos, images=True),
    "zarr": lambda folder, demos: write_zarr(folder / "d.zarr", demos, images=True),
    "rlds": lambda folder, demos: write_rlds(folder / "cups", demos, images=True),
    "npz-folder": lambda folder, demos: write_npz_folder(folder / "d", demos, images=True),
    "npz-file": lambda folder, demos: write_npz_file(folder / "all.npz", demos, images=True),
}


def _features(camera_dtype: str | None) -> dict[str, dict[str, object]]:
    features: dict[str, dict[str, object]] = {
        "observation.state": {"dtype": "float32", "shape": [2], "names": ["p", "q"]},
        "action": {"dtype": "float32", "shape": [3], "names": {"motors": ["x", "y", "z"]}},
    }
    if camera_dtype:
        features[CAMERA] = {
            "dtype": camera_dtype,
            "shape": [HEIGHT, WIDTH, 3],
            "names": ["height", "width", "channels"],
        }
    for key in ("timestamp", "frame_index", "episode_index", "index", "task_index"):
        dtype = "float32" if key == "timestamp" else "int64"
        features[key] = {"dtype": dtype, "shape": [1], "names": None}
    return features


def _png(image: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return buffer.getvalue()


def _write_lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
