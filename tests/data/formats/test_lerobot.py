from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oatkit
from oatkit import DatasetError
from tests.data import datasets
from tests.data.datasets import make_demos, truncate


def test_a_v2_dataset_with_image_shapes_channel_first(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos(), codec="h264")
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][datasets.CAMERA]["shape"] = [3, 48, 64]
    (root / "meta/info.json").write_text(json.dumps(info))
    camera = oatkit.open_dataset(root).cameras["front"]
    assert (camera.height, camera.width) == (48, 64)


def test_v3_rows_split_over_several_files(tmp_path: Path) -> None:
    """Episodes 0 and 1 in one file, 2 in another, as a large dataset has them."""
    demos = make_demos()
    root = datasets.write_lerobot_v3(tmp_path / "d", demos)
    datasets.split_v3_data(root, [19, 20])
    dataset = oatkit.open_dataset(root)
    for episode, demo in zip(dataset, demos, strict=True):
        np.testing.assert_array_equal(episode.actions, demo.actions)


def test_a_nan_in_a_file_of_many_episodes(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", make_demos((40,) * 9))
    path = root / "data/chunk-000/file-000.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[7 * 40 + 31]["action"][2] = float("nan")
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), path)
    with pytest.raises(
        DatasetError, match=r"file-000.parquet: 'action' is not finite at episode 7 frame 31"
    ):
        oatkit.open_dataset(root)


@pytest.mark.parametrize("codec", ["av1", "h264"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_truncated_video_is_named_with_its_episode(
    codec: str, share: float, tmp_path: Path
) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", make_demos(), codec=codec)
    truncate(root / "videos/observation.images.front/chunk-000/file-000.mp4", share)
    dataset = oatkit.open_dataset(root)
    with pytest.raises(DatasetError, match=r"camera 'front', episode 2: .*file-000.mp4"):
        dataset[2].images("front", [19])


def test_a_video_shorter_than_its_episode(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos(), codec="h264")
    videos = root / "videos/chunk-000/observation.images.front"
    shutil.copy(videos / "episode_000001.mp4", videos / "episode_000002.mp4")
    dataset = oatkit.open_dataset(root)
    with pytest.raises(DatasetError, match=r"episode_000002.mp4 ends at 0.600 s but .* 1.900 s"):
        dataset[2].images("front", [19])
    assert dataset[2].images("front", [5]).shape == (1, 48, 64, 3)


def test_a_missing_video_is_named(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos(), codec="h264")
    shutil.rmtree(root / "videos")
    dataset = oatkit.open_dataset(root)
    missing = dataset.cameras["front"].missing
    assert missing is not None
    assert missing.name == "episode_000000.mp4"
    with pytest.raises(DatasetError, match=r"episode_000000.mp4 cannot be read: No such file"):
        dataset[0].images("front", [0])


def test_a_damaged_stored_image_is_named(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v3_images(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/file-000.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[13][datasets.CAMERA]["bytes"] = b"not a png"
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), path)
    with pytest.raises(DatasetError, match=r"cannot be read \(camera 'front', episode 1 frame 1\)"):
        oatkit.open_dataset(root)[1].images("front", [0, 1])


def test_a_missing_column_names_file_and_the_closest(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/episode_000002.parquet"
    table = pq.read_table(path)
    pq.write_table(
        table.rename_columns(["actions" if c == "action" else c for c in table.column_names]), path
    )
    with pytest.raises(
        DatasetError, match=r"episode_000002.parquet: unknown column 'action'; .* first: actions"
    ):
        oatkit.open_dataset(root)


@pytest.mark.parametrize("value", [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0], [1.0, None, 2.0], None])
def test_a_ragged_or_empty_action_is_named(value: object, tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/episode_000001.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[4]["action"] = value
    pq.write_table(pa.Table.from_pylist(rows), path)
    with pytest.raises(
        DatasetError, match=r"episode_000001.parquet: 'action' of episode 1 frame 4 is not 3 numbe"
    ):
        oatkit.open_dataset(root)


def test_rows_that_only_add_up_are_still_ragged(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/episode_000000.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[2]["action"], rows[3]["action"] = [1.0, 2.0], [3.0, 4.0, 5.0, 6.0]
    pq.write_table(pa.Table.from_pylist(rows), path)
    with pytest.raises(DatasetError, match="episode 0 frame 2"):
        oatkit.open_dataset(root)


def test_fewer_rows_than_meta_says(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path).slice(0, 30), path)
    with pytest.raises(DatasetError, match="holds 30 rows but meta/ says 39"):
        oatkit.open_dataset(root)


def test_a_task_index_out_of_range(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    (root / "meta/tasks.jsonl").write_text("")
    with pytest.raises(DatasetError, match="has task_index 0, which meta/ does not list"):
        _ = oatkit.open_dataset(root)[0].task


def test_an_old_lerobot_version(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps(info | {"codebase_version": "v1.6"}))
    with pytest.raises(DatasetError, match=r"is LeRobot v1.6; v2.0, v2.1 and v3.0 can be read"):
        oatkit.open_dataset(root)


def test_text_where_numbers_belong(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/episode_000001.parquet"
    rows = [row | {"action": ["a", "b", "c"]} for row in pq.read_table(path).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows), path)
    with pytest.raises(DatasetError, match=r"episode_000001.parquet cannot be read \(action\)"):
        oatkit.open_dataset(root)


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


@pytest.mark.parametrize(
    "names",
    [
        ["kLeft", "kRight", "kGrip"],
        [["kLeft", "kRight", "kGrip"]],
        {"motors": ["kLeft", "kRight", "kGrip"]},
        {"arms": ["kLeft", "kRight"], "hand": [["kGrip"]]},
        {"kGrip": 2, "kLeft": 0, "kRight": 1},
    ],
)
def test_names_however_they_are_nested(tmp_path: Path, names: object) -> None:
    path = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    info = json.loads((path / "meta/info.json").read_text())
    info["features"]["action"]["names"] = names
    (path / "meta/info.json").write_text(json.dumps(info))
    assert oatkit.open_dataset(path).action.names == ("kLeft", "kRight", "kGrip")


def test_columns_of_text_and_language_are_passed_over(tmp_path: Path) -> None:
    """The columns that LeRobot 0.6 adds: texts, and lists of what was said."""
    demos = make_demos()
    root = datasets.write_lerobot_v3(tmp_path / "d", demos)
    info = json.loads((root / "meta/info.json").read_text())
    language = {"dtype": "language", "shape": [1], "names": None}
    info["features"] |= {
        "language_persistent": language,
        "language_events": language,
        "note": {"dtype": "string", "shape": [1], "names": None},
    }
    (root / "meta/info.json").write_text(json.dumps(info))
    path = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    said = {"role": "user", "content": "faster", "style": None, "camera": None, "tool_calls": []}
    persistent = [said | {"style": "subtask", "timestamp": 0.0}]
    fields = [("role", pa.string()), ("content", pa.string()), ("style", pa.string())]
    fields += [("camera", pa.string()), ("tool_calls", pa.list_(pa.string()))]
    kinds = {
        "language_persistent": ([persistent] * len(table), [*fields, ("timestamp", pa.float32())]),
        "language_events": ([[said], *[[]] * (len(table) - 1)], fields),
    }
    for key, (values, names) in kinds.items():
        table = table.append_column(key, pa.array(values, pa.list_(pa.struct(names))))
    pq.write_table(table.append_column("note", pa.array(["ok"] * len(table))), path)
    dataset = oatkit.open_dataset(root)
    assert set(dataset.columns) == {"action", "observation.state", "timestamp"}
    np.testing.assert_array_equal(dataset[2].actions, demos[2].actions)
    assert dataset[2].task == demos[2].task
    with pytest.raises(DatasetError, match="unknown column 'note'"):
        oatkit.open_dataset(root, action_key="note")
