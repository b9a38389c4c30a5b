"""Any dataset, mended, as LeRobot v3.0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oatkit.data import Dataset, open_dataset
from oatkit.data.formats.lerobot_meta import DECLARATION_PATH
from oatkit.errors import DatasetError, ShardError
from oatkit.jobs import conversion_shards
from oatkit.jobs.conversion_plan import Conversion
from oatkit.jobs.dataset_conversion import convert_dataset
from tests.data import datasets
from tests.data.datasets import make_demos


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three episodes at 10 Hz, with images."""
    return datasets.write_npz_folder(tmp_path / "source", make_demos(), images=True)


def converted(dataset: Dataset, out: Path, **wanted: object) -> Dataset:
    return open_dataset(convert_dataset(dataset, out, Conversion(**wanted)))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(datasets.WRITERS))
def test_every_format_becomes_the_same_numbers(name: str, tmp_path: Path) -> None:
    path = datasets.WRITERS[name](tmp_path, make_demos())
    before = open_dataset(path, fps=10)
    after = converted(before, tmp_path / "out", cameras=())
    assert after.format == "LeRobot v3.0"
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.actions, other.actions)
        np.testing.assert_array_equal(one.state, other.state)
        assert one.task == other.task


def test_images_and_columns_get_new_names(source: Path, tmp_path: Path) -> None:
    before = open_dataset(source, episodes=range(1, 3))
    after = converted(before, tmp_path / "out", cameras=("front=top",))
    assert list(after.cameras) == ["top"]
    assert list(after.episode_lengths) == [7, 20]
    shown = after[0].images("top", [0, 6]).mean(axis=(1, 2, 3))
    np.testing.assert_allclose(shown, [20, 38], atol=3)
    assert not (tmp_path / "out.partial").exists()


def test_resampling_keeps_numbers_and_images_in_step(source: Path, tmp_path: Path) -> None:
    after = converted(open_dataset(source, episodes=[0]), tmp_path / "out", resample=5)
    assert (after.fps, after.num_frames) == (5, 6)
    np.testing.assert_array_equal(after[0].actions, make_demos()[0].actions[::2])
    shown = after[0].images("front").mean(axis=(1, 2, 3))
    np.testing.assert_allclose(shown, 20 + 6 * np.arange(6), atol=3)


def test_shifted_actions_leave_out_the_last_frames(source: Path, tmp_path: Path) -> None:
    after = converted(open_dataset(source), tmp_path / "out", shift_actions=2, cameras=())
    demo = make_demos()[0]
    np.testing.assert_array_equal(after[0].actions, demo.actions[2:])
    np.testing.assert_array_equal(after[0].state, demo.state[:-2])


def test_a_transform_is_applied_to_whole_episodes(tmp_path: Path) -> None:
    angle = np.linspace(0, 20, 40, dtype=np.float32)
    wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
    actions = np.stack([wrapped, np.sin(angle), np.cos(angle), angle * 0 + 1], axis=1)
    actions[:, 3] = (angle > 10) * 0.9
    dataset = open_dataset({"action": actions}, actions="unwrap:0 binary:3", fps=10)
    after = converted(dataset, tmp_path / "out", resample=30)
    np.testing.assert_allclose(after[0].actions[::3, 0], angle, atol=1e-4)
    assert set(after[0].actions[:, 3].round(3)) == {0, np.float32(0.9)}
    assert after.transform is None


def test_a_rotation_is_written_in_another_form_with_its_own_names(tmp_path: Path) -> None:
    actions = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    dataset = open_dataset({"action": actions}, actions="axis-angle-to-6d:1-3", fps=10)
    after = converted(dataset, tmp_path / "out")
    assert after.action.names[:3] == ("action_0", "action_1.6d.0", "action_1.6d.1")
    assert after.action_dim == 7


def test_a_declaration_is_kept_for_who_opens_the_dataset(source: Path, tmp_path: Path) -> None:
    dataset = open_dataset(source)
    after = converted(dataset, tmp_path / "out", declare=("relative:0-1@0-1",), cameras=())
    assert str(after.transform) == "relative:0-1@0-1"
    assert open_dataset(tmp_path / "out", actions="absolute").transform is None
    (tmp_path / "out" / DECLARATION_PATH).write_text("{}")
    with pytest.raises(DatasetError, match=r"oatkit\.json"):
        open_dataset(tmp_path / "out")


def test_tasks_choose_episodes(tmp_path: Path) -> None:
    given = {"action": np.ones((3, 5, 2)), "task": ["open", "close", "open"]}
    after = converted(open_dataset(given, fps=10), tmp_path / "out", tasks=("open",))
    assert [episode.task for episode in after] == ["open", "open"]


def test_a_conversion_that_was_stopped_goes_on(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, encoded = conversion_shards._encode_video, []

    def stop_at_the_third(plan: object, episode: object, *rest: object) -> None:
        encoded.append(episode)
        if len(encoded) == 3:
            raise KeyboardInterrupt
        encode(plan, episode, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(conversion_shards, "_encode_video", stop_at_the_third)
    dataset, out = open_dataset(source), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        convert_dataset(dataset, out)
    assert not out.exists()
    with pytest.raises(ShardError, match="resample was None, is 5"):
        convert_dataset(dataset, out, Conversion(resample=5))
    after = open_dataset(convert_dataset(dataset, out))
    assert len(encoded) == 4  # the two that were whole were not encoded again
    assert after.num_frames == dataset.num_frames
    assert convert_dataset(dataset, out) == out
    with pytest.raises(DatasetError, match="was made with other options"):
        convert_dataset(dataset, out, Conversion(cameras=()))


def test_numbers_that_are_not_finite_name_the_episode(tmp_path: Path) -> None:
    demos = make_demos()
    demos[1].actions[3] = np.nan
    path = datasets.write_npz_folder(tmp_path / "source", demos)
    dataset = open_dataset(path, allow_nonfinite=True)
    with pytest.raises(DatasetError, match=r"'action' of episode 1 is not finite: .* --episodes"):
        converted(dataset, tmp_path / "out")
    whole = open_dataset(path, episodes=[0, 2], allow_nonfinite=True)
    after = converted(whole, tmp_path / "other")
    assert len(after) == 2
