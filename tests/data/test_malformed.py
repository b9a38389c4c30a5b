"""Strange files: each is a `DatasetError` that names the file, never another traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

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


def test_text_where_numbers_belong(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/episode_000001.parquet"
    rows = [row | {"action": ["a", "b", "c"]} for row in pq.read_table(path).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows), path)
    with pytest.raises(DatasetError, match=r"episode_000001.parquet cannot be read \(action\)"):
        oatkit.open_dataset(root)


def test_tasks_are_found_by_their_index(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    lines = [{"task_index": 5, "task": "five"}, {"task_index": 0, "task": "zero"}]
    (root / "meta/tasks.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    path = root / "data/chunk-000/episode_000001.parquet"
    rows = [row | {"task_index": 5} for row in pq.read_table(path).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert [e.task for e in oatkit.open_dataset(root)] == ["zero", "five", "zero"]


def test_rows_out_of_order_are_refused(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(19), table.slice(0, 19)]), path)
    with pytest.raises(DatasetError, match="row 0 is of episode 2, where meta/ says episode 0"):
        oatkit.open_dataset(root)


def test_episodes_keep_the_numbers_of_their_files(tmp_path: Path) -> None:
    demos = make_demos()
    demos[2].actions[5, 0] = np.nan
    root = datasets.write_lerobot_v21(tmp_path / "d", demos)
    lines = (root / "meta/episodes.jsonl").read_text().splitlines()
    (root / "meta/episodes.jsonl").write_text("\n".join(lines[1:]))
    with pytest.raises(DatasetError, match=r"episode_000002.parquet: .* episode 2 frame 5"):
        oatkit.open_dataset(root)
    dataset = oatkit.open_dataset(root, allow_nonfinite=True)
    assert dataset.episode_numbers.tolist() == [1, 2]
    assert dataset.chunks(4)[0]["episode_index"] == 1


def make_hdf5(path: Path, build: Callable[[Any], None]) -> Path:
    with h5py.File(path, "w") as file:
        file["data/demo_0/actions"] = np.ones((5, 2))
        build(file)
    return path


def replace_actions(value: Any) -> Callable[[Any], None]:
    def build(file: Any) -> None:
        del file["data/demo_0/actions"]
        file["data/demo_0/actions"] = value

    return build


HARMLESS: dict[str, Callable[[Any], Any]] = {
    "group in obs": lambda file: file.create_group("data/demo_0/obs/nested"),
    "stray dataset": lambda file: file.create_dataset("data/notes", data=[1]),
    "stray group": lambda file: file.create_group("data/meta"),
    "args a list": lambda file: file["data"].attrs.update({"env_args": "[1]"}),
    "args no JSON": lambda file: file["data"].attrs.update({"env_args": "{"}),
    "null kwargs": lambda file: file["data"].attrs.update({"env_args": '{"env_kwargs": null}'}),
    "null rate": lambda file: file["data"].attrs.update(
        {"env_args": '{"env_kwargs": {"control_freq": null}}'}
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_hdf5_with_harmless_oddities_opens(name: str, tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(make_hdf5(tmp_path / "d.HDF5", HARMLESS[name]))
    assert dataset[0].actions.shape == (5, 2)
    assert dataset.fps is None


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (replace_actions(1.0), "'actions' is a single number"),
        (replace_actions(np.zeros((0, 3))), "episode 0 has no frames"),
        (lambda file: file.move("data/demo_0", "data/other"), "holds no demonstrations"),
        (lambda file: (file.pop("data"), file.create_dataset("data", data=[1])), "no group 'data'"),
    ],
)
def test_strange_hdf5(build: Callable[[Any], Any], message: str, tmp_path: Path) -> None:
    path = make_hdf5(tmp_path / "d.hdf5", build)
    with pytest.raises(DatasetError, match=message) as caught:
        oatkit.open_dataset(path)
    assert "d.hdf5" in str(caught.value)


def test_strange_zarr(tmp_path: Path) -> None:
    (tmp_path / "bad.zarr.zip").write_bytes(b"no zip")
    with pytest.raises(DatasetError, match=r"bad.zarr.zip cannot be read"):
        oatkit.open_dataset(tmp_path / "bad.zarr.zip")
    path = datasets.write_zarr(tmp_path / "d" / "d.zarr", make_demos())
    group = zarr.open_group(str(path), mode="a")
    group.create_group("data/nested")
    group.create_array("data/note", data=np.ones(2))
    assert oatkit.open_dataset(path).columns == ("action", "state")
    (path / "data/action/.zarray").write_text("{}")
    with pytest.raises(DatasetError, match=r"d.zarr (has no|cannot be read)"):
        oatkit.open_dataset(path)
    datasets.write_zarr(tmp_path / "d" / "e.zarr", make_demos())
    with pytest.raises(DatasetError, match="holds 2 zarr stores: name one of them"):
        oatkit.open_dataset(tmp_path / "d")


def test_float_images_from_0_to_1_are_refused(tmp_path: Path) -> None:
    path = datasets.write_zarr(tmp_path / "d.zarr", make_demos())
    group = zarr.open_group(str(path), mode="a")
    group.create_array("data/front", data=np.full((39, 4, 4, 3), 0.5, np.float32))
    with pytest.raises(DatasetError, match=r"data/front holds images in 0 \.\. 1, expected 0"):
        oatkit.open_dataset(path)[0].images("front", [0])
    images = {"observation.images.front": np.full((3, 4, 4, 3), 0.5)}
    np.savez(tmp_path / "e.npz", action=np.ones((3, 2)), **images)
    with pytest.raises(DatasetError, match=r"is float64 \(3, 4, 4, 3\), expected uint8"):
        oatkit.open_dataset(tmp_path / "e.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"action": np.array(1.0)}, r"'action' has shape \(\), expected \(T, A\)"),
        ({"action": np.ones((4, 0))}, r"'action' has shape \(4, 0\)"),
        ({"action": np.ones((4, 2)), "episode_ends": 4}, "must be whole numbers"),
        ({"action": np.ones((4, 2)), "episode_ends": [[4]]}, "must be whole numbers"),
        ({"action": np.ones((4, 2)), "episode_ends": [1.5, 4]}, "must be whole numbers"),
        ({"action": np.ones((4, 2)), "fps": [10, 20]}, "cannot be read"),
        ({"action": np.ones((4, 2)), "fps": "ten"}, "cannot be read"),
        (
            {"action": np.ones((4, 2)), "episode_ends": [2, 4], "task": ["a"] * 3},
            "3 tasks for 2 episodes",
        ),
    ],
)
def test_strange_npz(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "strange.npz", **arrays)
    with pytest.raises(DatasetError, match=message) as caught:
        oatkit.open_dataset(tmp_path / "strange.npz")
    assert "strange.npz" in str(caught.value)


def test_a_folder_takes_one_episode_a_file_also_in_its_second(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", action=np.ones((4, 2)))
    np.savez(tmp_path / "1.npz", action=np.ones((4, 2)), episode_ends=[2, 4])
    with pytest.raises(DatasetError, match=r"1.npz holds several episodes"):
        oatkit.open_dataset(tmp_path)


def test_damaged_bytes_in_a_compressed_npz(tmp_path: Path) -> None:
    path = datasets.write_npz_file(tmp_path / "d.npz", make_demos((200, 300)))
    data = bytearray(path.read_bytes())
    data[200:400] = bytes(200)
    path.write_bytes(data)
    with pytest.raises(DatasetError, match=r"d.npz"):
        oatkit.open_dataset(path)


def test_a_column_called_task_index_is_no_trouble(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", action=np.ones((4, 2)), task_index=np.arange(4.0))
    with_state = oatkit.open_dataset(tmp_path / "d.npz", state_key="task_index")
    assert with_state[0].task == "d"
    assert oatkit.open_dataset(tmp_path / "d.npz")[0].task == "d"
    np.testing.assert_array_equal(with_state[0].state, [[0], [1], [2], [3]])


@pytest.mark.parametrize("fps", [0, -3, float("nan"), float("inf")])
def test_wrong_fps(fps: float, tmp_path: Path) -> None:
    path = datasets.write_npz_file(tmp_path / "d.npz", make_demos())
    with pytest.raises(ValueError, match="expected a number above 0"):
        oatkit.open_dataset(path, fps=fps)


def test_fortran_order_big_endian_and_other_types_are_read(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(6, 2)
    images = np.random.default_rng(0).integers(0, 255, (6, 4, 5, 3)).astype(np.uint8)
    np.savez(
        tmp_path / "d.npz",
        **{
            "action": np.asfortranarray(values.astype(">f8")),
            "observation.state": values > 4,
            "observation.images.top": np.asfortranarray(images),
        },
    )
    dataset = oatkit.open_dataset(tmp_path / "d.npz")
    np.testing.assert_array_equal(dataset[0].actions, values)
    np.testing.assert_array_equal(dataset[0].state, values > 4)
    np.testing.assert_array_equal(dataset[0].images("top", [4, 1]), images[[4, 1]])
