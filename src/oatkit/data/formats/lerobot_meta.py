"""What the `meta/` folder of a LeRobot dataset says: the tasks, and where each episode lies.

v2.x keeps one parquet and one mp4 per episode; v3.0 joins episodes into larger files and says in
`meta/episodes` where each one lies.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from oatkit.data.formats.parquet_files import open_parquet
from oatkit.data.formats.reading_errors import errors_naming
from oatkit.errors import DatasetError, unknown_name

INFO_PATH = "meta/info.json"
DECLARATION_PATH = "meta/oatkit.json"


@dataclass(frozen=True)
class EpisodePlaces:
    """Where every episode lies.

    Attributes:
        numbers: (episodes,) number of each episode in the files.
        lengths: (episodes,) frames of each episode.
        data_files: Each data file once, in the order of the rows.
        data_file_of: (episodes,) index of each episode's file in `data_files`.
        videos: Camera to the video file of each episode.
        video_starts_s: Camera to the second of that file where each episode begins.
    """

    numbers: NDArray[np.int64]
    lengths: NDArray[np.int64]
    data_files: list[str]
    data_file_of: NDArray[np.int64]
    videos: dict[str, list[str]]
    video_starts_s: dict[str, NDArray[np.float64]]

    def of_files_with(self, episodes: NDArray[np.int64]) -> EpisodePlaces:
        """The episodes of those data files which hold one of some episodes.

        Args:
            episodes: Indices of these episodes.
        """
        files = np.unique(self.data_file_of[episodes])
        kept = np.flatnonzero(np.isin(self.data_file_of, files))
        return EpisodePlaces(
            numbers=self.numbers[kept],
            lengths=self.lengths[kept],
            data_files=[self.data_files[file] for file in files],
            data_file_of=np.searchsorted(files, self.data_file_of[kept]),
            videos={name: [paths[i] for i in kept] for name, paths in self.videos.items()},
            video_starts_s={name: starts[kept] for name, starts in self.video_starts_s.items()},
        )


def read_info(root: Path) -> dict[str, Any]:
    """The contents of `meta/info.json`."""
    path = root / INFO_PATH
    with errors_naming(path):
        return dict(json.loads(path.read_text()))


def read_declared_actions(root: Path) -> str | None:
    """How the dataset says that its actions are to be represented, in `meta/oatkit.json`."""
    path = root / DECLARATION_PATH
    if not path.is_file():
        return None
    with errors_naming(path):
        return str(json.loads(path.read_text())["actions"])


def read_tasks(root: Path, *, is_v3: bool) -> dict[int, str]:
    """The instruction of each `task_index`."""
    return _tasks_v3(root) if is_v3 else _tasks_v2(root)


def read_places(
    root: Path, info: dict[str, Any], video_keys: dict[str, str], *, is_v3: bool
) -> EpisodePlaces:
    """Where the episodes lie.

    Args:
        root: The folder of the dataset.
        info: What `read_info` gave.
        video_keys: Camera to the key of its video in the files.
        is_v3: Whether several episodes share a file.
    """
    return (_places_v3 if is_v3 else _places_v2)(root, info, video_keys)


def _tasks_v2(root: Path) -> dict[int, str]:
    path = root / "meta" / "tasks.jsonl"
    rows = _read_json_lines(path)
    with errors_naming(path):
        return {int(row["task_index"]): str(row["task"]) for row in rows}


def _tasks_v3(root: Path) -> dict[int, str]:
    """The text is the table's index, which pandas stores under one of these names."""
    path = root / "meta" / "tasks.parquet"
    with errors_naming(path):
        columns = pq.read_table(path).to_pydict()
        text_key = next(key for key in ("__index_level_0__", "task") if key in columns)
        return dict(zip(columns["task_index"], columns[text_key], strict=True))


def _places_v2(root: Path, info: dict[str, Any], video_keys: dict[str, str]) -> EpisodePlaces:
    path = root / "meta" / "episodes.jsonl"
    with errors_naming(path):
        rows = sorted(_read_json_lines(path), key=lambda row: row["episode_index"])
        lengths = np.array([row["length"] for row in rows], np.int64)
    places = [
        {
            "episode_index": row["episode_index"],
            "episode_chunk": row["episode_index"] // info["chunks_size"],
        }
        for row in rows
    ]
    return EpisodePlaces(
        numbers=np.array([row["episode_index"] for row in rows], np.int64),
        lengths=lengths,
        data_files=[info["data_path"].format(**place) for place in places],
        data_file_of=np.arange(len(rows)),
        videos={
            name: [info["video_path"].format(video_key=key, **place) for place in places]
            for name, key in video_keys.items()
        },
        video_starts_s={name: np.zeros(len(rows)) for name in video_keys},
    )


def _places_v3(root: Path, info: dict[str, Any], video_keys: dict[str, str]) -> EpisodePlaces:
    paths = sorted((root / "meta" / "episodes").glob("*/*.parquet"))
    if not paths:
        raise DatasetError(f"{root / 'meta' / 'episodes'} holds no parquet file")
    tables = []
    for path in paths:
        with errors_naming(path), open_parquet(path) as file:
            wanted = [n for n in file.schema_arrow.names if not n.startswith("stats/")]
            tables.append(file.read(columns=wanted))
    with errors_naming(paths[0]):
        table = pa.concat_tables(tables, promote_options="default").sort_by("episode_index")

    def column(key: str) -> NDArray[Any]:
        if key not in table.column_names:
            raise DatasetError(f"{paths[0]}: {unknown_name('column', key, table.column_names)}")
        return table.column(key).to_numpy()

    def places(prefix: str, pattern: str, **more: str) -> list[str]:
        indices = zip(column(f"{prefix}/chunk_index"), column(f"{prefix}/file_index"), strict=True)
        return [pattern.format(chunk_index=int(c), file_index=int(f), **more) for c, f in indices]

    data_files = places("data", info["data_path"])
    unique = list(dict.fromkeys(data_files))
    numbers = {name: i for i, name in enumerate(unique)}
    data_file_of = np.array([numbers[name] for name in data_files], np.int64)
    if (np.diff(data_file_of) < 0).any():
        raise DatasetError(f"{paths[0]}: the episodes are not in the order of the data files")
    return EpisodePlaces(
        numbers=column("episode_index").astype(np.int64),
        lengths=column("length").astype(np.int64),
        data_files=unique,
        data_file_of=data_file_of,
        videos={
            name: places(f"videos/{key}", info["video_path"], video_key=key)
            for name, key in video_keys.items()
        },
        video_starts_s={
            name: column(f"videos/{key}/from_timestamp").astype(np.float64)
            for name, key in video_keys.items()
        },
    )


def _read_json_lines(path: Path) -> list[dict[str, Any]]:
    with errors_naming(path):
        lines = path.read_text().splitlines()
        return [json.loads(line) for line in lines if line.strip()]
