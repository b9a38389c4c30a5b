from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oatkit
from oatkit import DatasetError
from tests.data import datasets
from tests.data.datasets import make_demos


def edit_json(path: Path, change: Callable[[Any], Any]) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def without(key: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda values: {k: v for k, v in values.items() if k != key}


INFO_CHANGES: dict[str, Callable[[Any], Any]] = {
    "no fps": without("fps"),
    "no features": without("features"),
    "no data_path": without("data_path"),
    "no chunks_size": without("chunks_size"),
    "null fps": lambda info: info | {"fps": None},
    "a list": lambda info: [1, 2],
    "shape a number": lambda info: (
        info | {"features": {"action": {"dtype": "float32", "shape": 3, "names": None}}}
    ),
    "no dtype": lambda info: info | {"features": {"action": {"shape": [3]}}},
}


@pytest.mark.parametrize("name", INFO_CHANGES)
def test_strange_info_json(name: str, tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    edit_json(root / "meta/info.json", INFO_CHANGES[name])
    with pytest.raises(DatasetError, match=r"meta/info.json (has no|cannot be read)"):
        oatkit.open_dataset(root)


@pytest.mark.parametrize(
    ("file", "line"),
    [("tasks.jsonl", '{"task": "t"}'), ("episodes.jsonl", '{"episode_index": 0}')],
)
def test_lines_without_what_they_need(file: str, line: str, tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    (root / "meta" / file).write_text(line + "\n")
    with pytest.raises(DatasetError, match=f"{file} has no '(task_index|length)'"):
        oatkit.open_dataset(root)


def test_v3_metadata_without_what_it_needs(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", make_demos())
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["length"]), path)
    with pytest.raises(DatasetError, match=r"file-000.parquet: unknown column 'length'") as caught:
        oatkit.open_dataset(root)
    assert "\n" not in str(caught.value)
    (root / "meta/tasks.parquet").unlink()
    path.unlink()
    with pytest.raises(DatasetError, match="holds no parquet file"):
        oatkit.open_dataset(root)


def test_a_missing_tasks_file_is_called_missing(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", make_demos())
    (root / "meta/tasks.parquet").unlink()
    with pytest.raises(DatasetError, match=r"tasks.parquet does not exist"):
        oatkit.open_dataset(root)


def test_tasks_are_found_by_their_index(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    lines = [{"task_index": 5, "task": "five"}, {"task_index": 0, "task": "zero"}]
    (root / "meta/tasks.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    path = root / "data/chunk-000/episode_000001.parquet"
    rows = [row | {"task_index": 5} for row in pq.read_table(path).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert [e.task for e in oatkit.open_dataset(root)] == ["zero", "five", "zero"]
