from __future__ import annotations

import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oatkit
from oatkit.data.formats import rlds
from oatkit.errors import DatasetError
from tests.data import datasets
from tests.data.datasets import make_demos
from tests.data.rlds_writer import image, tensor, text, write_rlds


def write_steps(folder: Path, described: dict[str, Any], **columns: Any) -> Path:
    """A dataset of one episode."""
    values = {key.replace("__", "/"): value for key, value in columns.items()}
    return write_rlds(folder / "robot/1.0.0", described, [values], num_files=1)


def test_actions_in_parts_are_joined_as_rt1_has_them(tmp_path: Path) -> None:
    parts = {
        "rotation_delta": tensor(3),
        "world_vector": tensor(3),
        "gripper_closedness_action": tensor(1),
        "terminate_episode": tensor(3, dtype="int32"),
    }
    rows = np.arange(14, dtype=np.float32).reshape(2, 7)
    root = write_steps(
        tmp_path,
        {"action": parts},
        action__world_vector=rows[:, :3],
        action__rotation_delta=rows[:, 3:6],
        action__gripper_closedness_action=rows[:, 6:],
        action__terminate_episode=np.array([[0, 0, 1], [-1, 0, 2]]),
    )
    dataset = oatkit.open_dataset(root)
    np.testing.assert_array_equal(dataset[0].actions, rows)
    ends = dataset[0].column("action/terminate_episode")
    np.testing.assert_array_equal(ends, [[0, 0, 1], [-1, 0, 2]])
    assert dataset.tasks == ("robot",)
    assert dataset.state is None


def test_numbers_that_are_not_packed(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    write_rlds(tmp_path / "d/1", {"action": tensor(3)}, [{"action": rows}], is_packed=False,
               num_files=1)  # fmt: skip
    np.testing.assert_array_equal(oatkit.open_dataset(tmp_path / "d")[0].actions, rows)


@pytest.mark.parametrize("encoding", ["zlib", "bytes"])
def test_numbers_stored_as_bytes(encoding: str, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(4, 2))
    packed = [zlib.compress(r.tobytes()) if encoding == "zlib" else r.tobytes() for r in rows]
    described = {"action": tensor(2, dtype="float64", encoding=encoding), "reward": tensor()}
    root = write_steps(tmp_path, described, action=packed, reward=np.ones(4, np.float32))
    np.testing.assert_array_equal(oatkit.open_dataset(root)[0].actions, rows.astype(np.float32))


def test_every_frame_has_its_own_instruction(tmp_path: Path) -> None:
    root = write_steps(
        tmp_path,
        {"action": tensor(2), "observation": {"natural_language_instruction": text()}},
        action=np.zeros((3, 2), np.float32),
        observation__natural_language_instruction=["öffne".encode(), b"close", "öffne".encode()],
    )
    chunks = oatkit.open_dataset(root).chunks(1)
    assert [chunks[i]["task"] for i in range(3)] == ["öffne", "close", "öffne"]


def test_the_size_of_a_camera_that_the_description_leaves_open(tmp_path: Path) -> None:
    demo = make_demos((3,))[0]
    encoded = [datasets._png(one) for one in demo.images()]
    root = write_steps(
        tmp_path,
        {"action": tensor(3), "observation": {"image": image(-1, -1)}},
        action=demo.actions,
        observation__image=encoded,
    )
    dataset = oatkit.open_dataset(root)
    assert (dataset.cameras["image"].height, dataset.cameras["image"].width) == (48, 64)
    np.testing.assert_array_equal(dataset[0].images("image"), demo.images())


def test_several_splits_and_one_file_alone(tmp_path: Path) -> None:
    root = datasets.write_rlds(tmp_path / "cups", make_demos()) / "1.0.0"
    first = root / "cups-train.tfrecord-00000-of-00002"
    (root / "cups-val.tfrecord-00000-of-00001").write_bytes(first.read_bytes())
    assert [len(e) for e in oatkit.open_dataset(root)] == [12, 7, 20, 12, 7]
    assert [len(e) for e in oatkit.open_dataset(first)] == [12, 7]


def test_a_source_goes_to_other_processes(tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(datasets.write_rlds(tmp_path / "c", make_demos(), images=True))
    assert dataset[2].images("front", [3]).shape == (1, 48, 64, 3)
    again = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(again[2].images("front", [3]), dataset[2].images("front", [3]))


def test_a_broken_checksum_is_named(tmp_path: Path) -> None:
    root = datasets.write_rlds(tmp_path / "cups", make_demos())
    path = root / "1.0.0/cups-train.tfrecord-00000-of-00002"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        DatasetError, match=r"00000-of-00002: record \d at byte \d+ is damaged: its checksum is"
    ):
        oatkit.open_dataset(root)


def test_missing_files_are_warned_of(tmp_path: Path) -> None:
    root = datasets.write_rlds(tmp_path / "cups", make_demos())
    (root / "1.0.0/cups-train.tfrecord-00000-of-00002").unlink()
    with pytest.warns(UserWarning, match="has 1 of the 2 files of the split 'train'"):
        dataset = oatkit.open_dataset(root)
    assert [len(e) for e in dataset] == [20]


def test_fewer_episodes_than_the_description_says(tmp_path: Path) -> None:
    root = datasets.write_rlds(tmp_path / "cups", make_demos()) / "1.0.0"
    info = {"splits": [{"name": "train", "shardLengths": ["3", "1"]}]}
    (root / "dataset_info.json").write_text(json.dumps(info))
    with pytest.raises(DatasetError, match=r"holds 2 episodes but dataset_info.json says 3"):
        oatkit.open_dataset(root)


def test_files_of_other_formats_are_refused(tmp_path: Path) -> None:
    root = datasets.write_rlds(tmp_path / "cups", make_demos()) / "1.0.0"
    for path in root.glob("*.tfrecord*"):
        path.rename(root / path.name.replace("tfrecord", "array_record"))
    with pytest.raises(DatasetError, match=r"holds no files \*.tfrecord-\*"):
        oatkit.open_dataset(root)


def test_several_versions_are_named(tmp_path: Path) -> None:
    root = datasets.write_rlds(tmp_path / "cups", make_demos())
    (root / "1.0.0").rename(root / "0.9.0")
    write_steps(root.parent, {"action": tensor(1)}, action=np.zeros((1, 1), np.float32))
    (root.parent / "robot/1.0.0").rename(root / "1.0.0")
    with pytest.raises(DatasetError, match=r"2 RLDS datasets, 0.9.0, 1.0.0: name one of them"):
        oatkit.open_dataset(root)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"action": np.zeros(7, np.float32)}, r"'action' of episode 0 has 7 numbers, expected 4"),
        ({"action": [b"x"] * 4}, r"cannot be read \('action' of episode 0\) .*bytes where num"),
        ({}, "unknown column 'steps/action'"),
    ],
)
def test_columns_that_are_not_as_described(
    columns: dict[str, Any], message: str, tmp_path: Path
) -> None:
    described = {"action": tensor(2), "reward": tensor()}
    root = write_steps(tmp_path, described, reward=np.zeros(4, np.float32), **columns)
    with pytest.raises(DatasetError, match=message):
        oatkit.open_dataset(root)


def test_texts_and_images_that_are_fewer_than_the_steps(tmp_path: Path) -> None:
    described = {"action": tensor(1), "task": text(), "image": image(8, 8)}
    action = np.zeros((2, 1), np.float32)
    root = write_steps(tmp_path / "a", described, action=action, task=[b"x"], image=[b"", b""])
    with pytest.raises(DatasetError, match="1 texts 'task' for 2 steps"):
        oatkit.open_dataset(root)
    root = write_steps(tmp_path / "b", described, action=action, task=[b"x"] * 2, image=[b"?"])
    with pytest.raises(DatasetError, match=r"camera 'image', episode 0 frame 1\) .*1 values for 2"):
        oatkit.open_dataset(root)[0].images("image", [1])


def test_a_damaged_image_is_named(tmp_path: Path) -> None:
    described = {"action": tensor(1), "image": image(8, 8)}
    action = np.zeros((2, 1), np.float32)
    root = write_steps(tmp_path, described, action=action, image=[b"no", b"image"])
    with pytest.raises(DatasetError, match=r"cannot be read \(camera 'image', episode 0 frame 1\)"):
        oatkit.open_dataset(root)[0].images("image", [1])


def test_memory_holds_one_episode_at_a_time(tmp_path: Path) -> None:
    source = rlds.Rlds(
        datasets.write_rlds(tmp_path / "cups", make_demos()) / "1.0.0",
        rlds.Opening(tmp_path / "cache"),
    )
    assert [len(block) for block in source.read("action")] == [12, 7, 20]


def test_what_tensorflow_datasets_writes(tmp_path: Path) -> None:
    """The real writer of RLDS, in an environment that has it: `make test-rlds`."""
    pytest.importorskip("tensorflow_datasets", reason="TensorFlow Datasets is not installed")
    from tests.data.tfds_writer import write_with_tfds

    demos = make_demos()
    dataset = oatkit.open_dataset(write_with_tfds(tmp_path, demos))
    assert dataset.fps is None
    for episode, demo in zip(dataset, demos, strict=True):
        np.testing.assert_array_equal(episode.actions, demo.actions)
        np.testing.assert_array_equal(episode.state, demo.state)
        np.testing.assert_array_equal(episode.images("front"), demo.images())
        assert episode.task == demo.task
        for key in ("is_first", "packed", "wide", "small"):
            assert episode.column(key).shape[0] == len(episode)
        np.testing.assert_array_equal(episode.column("packed"), demo.state)
        np.testing.assert_array_equal(episode.column("wide"), demo.state)
        np.testing.assert_array_equal(episode.column("small")[:, 0], np.arange(len(episode)) - 3)
