"""Each kind of finding is made on purpose, found, placed, and answered with a remedy."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oatkit
from oatkit.data.check import check_dataset, quick_check
from oatkit.types import Finding
from tests.data import datasets
from tests.data.datasets import Demo, make_demos


def find(folder: Path, demos: list[Demo], *, horizon: int = 8) -> list[Finding]:
    path = datasets.write_lerobot_v21(folder / "d", demos)
    dataset = oatkit.open_dataset(path, allow_nonfinite=True)
    return list(check_dataset(dataset, horizon=horizon).findings)


def smooth_demos(count: int = 6) -> list[Demo]:
    """Uniform actions and states: nothing to complain about."""
    rng = np.random.default_rng(0)
    return [
        Demo(
            rng.uniform(-1, 1, (40, 3)).astype(np.float32),
            rng.uniform(-1, 1, (40, 2)).astype(np.float32),
        )
        for _ in range(count)
    ]


def moving_demos() -> list[Demo]:
    """Joints that swing."""
    demos = smooth_demos()
    for number, demo in enumerate(demos):
        turns = np.linspace(0, 6, len(demo.actions)) + number
        demo.actions[:] = np.sin(turns)[:, None] * [1, 2, 3]
        demo.state[:] = np.cos(turns)[:, None] * [1, 2]
    return demos


def test_a_good_dataset_has_no_findings(tmp_path: Path) -> None:
    assert find(tmp_path, smooth_demos()) == []


def test_nan_and_infinity(tmp_path: Path) -> None:
    demos = smooth_demos()
    demos[4].actions[7:9, 1] = np.nan
    demos[5].actions[3, 1] = np.inf
    demos[2].state[0, 0] = np.nan
    action, state = find(tmp_path, demos)
    assert action.kind == state.kind == "non-finite"
    assert (action.episode, action.frame) == (4, 7)
    assert action.message == (
        "action 'y' is NaN or infinite at 3 frames of 2 episodes, first at episode 4 frame 7"
    )
    assert state.message == "state 'p' is NaN or infinite at episode 2 frame 0"


def test_constant_dimension(tmp_path: Path) -> None:
    demos = smooth_demos()
    for demo in demos:
        demo.actions[:, 2] = 0.5
    (found,) = find(tmp_path, demos)
    assert found.kind == "constant"
    assert found.message.startswith("action 'z' is always 0.5")
    assert "--ignore constant" in found.remedy


def test_action_equal_to_the_state(tmp_path: Path) -> None:
    demos = smooth_demos()
    for demo in demos:
        demo.actions[:, 1] = demo.state[:, 0]
    (found,) = find(tmp_path, demos)
    assert found.kind == "action-is-state"
    assert "action 'y' equals state 'p' of the same frame" in found.message
    demos[5].actions[39, 1] += 0.1
    assert find(tmp_path / "once_different", demos) == []


@pytest.mark.parametrize(("turn", "low"), [(2 * np.pi, -np.pi), (360.0, 0.0)])
def test_wrapping_angle(turn: float, low: float, tmp_path: Path) -> None:
    demos = moving_demos()
    angle = np.linspace(0, 1.5 * turn, 40)
    for demo in demos:
        demo.state[:, 1] = low + angle % turn
    (found,) = find(tmp_path, demos)
    assert found.kind == "wrapping-angle"
    jump = int(np.argmax(np.diff(demos[0].state[:, 1]) < 0)) + 1
    assert (found.episode, found.frame) == (0, jump)
    assert f"jumps by a full turn ({turn:.4g}) at 6 frames of 6 episodes" in found.message


def test_an_angle_that_turns_without_wrapping_is_fine(tmp_path: Path) -> None:
    demos = smooth_demos()
    for demo in demos:
        demo.state[:, 1] = np.linspace(-np.pi, np.pi, 40)
    assert find(tmp_path, demos) == []


def test_short_episodes(tmp_path: Path) -> None:
    demos = [*smooth_demos(), *make_demos((20, 15))]
    short = [f for f in find(tmp_path, demos, horizon=32) if f.kind == "short-episode"]
    assert [(f.episode, f.frame) for f in short] == [(7, 14)]
    assert short[0].message.startswith("2 of 8 episodes are shorter than a chunk of 32")


def test_outliers(tmp_path: Path) -> None:
    demos = smooth_demos()
    demos[3].actions[17, 0] = 100
    (found,) = find(tmp_path, demos)
    assert (found.kind, found.episode, found.frame) == ("outlier", 3, 17)
    assert "action 'x' reaches" in found.message
    assert "to 100 while 98 % lie between" in found.message


def test_a_rare_gripper_is_no_outlier(tmp_path: Path) -> None:
    demos = smooth_demos()
    for demo in demos:
        demo.actions[:, 2] = 0
    demos[0].actions[5, 2] = 1
    assert find(tmp_path, demos) == []


def test_duplicated_episodes(tmp_path: Path) -> None:
    demos = smooth_demos()
    (found,) = find(tmp_path, [*demos, demos[1]])
    assert found.kind == "duplicate-episode"
    assert found.message.startswith("episodes 1, 6 have identical actions")


def test_timestamps_that_disagree_with_fps(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", smooth_demos())
    path = root / "data/chunk-000/episode_000002.parquet"
    table = pq.read_table(path)
    seconds = table["timestamp"].to_numpy().copy()
    seconds[11:] += 0.1
    column = table.schema.get_field_index("timestamp")
    table = table.set_column(column, "timestamp", pa.array(seconds, pa.float32()))
    pq.write_table(table, path)
    (found,) = check_dataset(oatkit.open_dataset(root), horizon=8).findings
    assert (found.kind, found.episode, found.frame) == ("timestamps", 2, 11)
    assert found.message == "timestamps are not 1/10 s apart at episode 2 frame 11"
    assert len(check_dataset(oatkit.open_dataset(root, fps=20), horizon=8).findings) == 1


def test_long_recordings_with_float32_timestamps_are_fine(tmp_path: Path) -> None:
    length = 40_000
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "d.npz",
        action=rng.uniform(size=(length, 2)),
        timestamp=(np.arange(length) / 50 + 3e4).astype(np.float32),
        fps=50,
    )
    assert check_dataset(oatkit.open_dataset(tmp_path / "d.npz")).findings == ()


def test_missing_video(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", smooth_demos(2), codec="h264")
    shutil.rmtree(root / "videos")
    (found,) = check_dataset(oatkit.open_dataset(root), horizon=8).findings
    assert found.kind == "missing-video"
    assert "camera 'front' is declared but" in found.message


def test_a_glitch_among_rare_events_is_an_outlier(tmp_path: Path) -> None:
    demos = smooth_demos(12)
    for demo in demos:
        demo.actions[:, 2] = 0
    demos[0].actions[5, 2] = demos[3].actions[5, 2] = 1
    demos[8].actions[30, 2] = 1e6
    (found,) = find(tmp_path, demos)
    assert (found.kind, found.episode, found.frame) == ("outlier", 8, 30)


def test_a_wrong_horizon(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="horizon is 0, expected at least 1"):
        find(tmp_path, smooth_demos(), horizon=0)


def test_a_joint_that_only_trembles(tmp_path: Path) -> None:
    demos, rng = moving_demos(), np.random.default_rng(1)
    for demo in demos:
        demo.actions[:, 1] = 0.75 + 2.0**-7 * rng.integers(-1, 2, len(demo.actions))
    (found,) = find(tmp_path, demos)
    assert found.kind == "idle"
    assert found.message == (
        "action 'y' moves by 0.016 in all, between 0.7422 and 0.7578, while the others move by 4: "
        "noise"
    )
    assert "leave it out (--action-dims" in found.remedy


def test_small_motion_is_no_trembling(tmp_path: Path) -> None:
    """A slide of millimeters among joints in radians moves smoothly, and is meant."""
    demos = moving_demos()
    for demo in demos:
        demo.actions[:, 1] *= 0.005
    assert find(tmp_path, demos) == []


@pytest.mark.parametrize(
    ("reads_state", "kinds"), [(True, ["idle", "action-is-state"]), (False, [])]
)
def test_the_quick_part_finds_what_training_would_not_show(
    tmp_path: Path, reads_state: bool, kinds: list[str]
) -> None:
    demos = moving_demos()
    demos[0].actions[5, 0] = 100.0  # an outlier, which is no part of it
    for demo in demos:
        demo.state[:] = np.concatenate([demo.actions[:, 2:], demo.actions[:, 2:] * 1e-6], axis=1)
    dataset = oatkit.open_dataset(datasets.write_lerobot_v21(tmp_path / "d", demos))
    found = quick_check(dataset, reads_state=reads_state)
    assert [finding.kind for finding in found] == kinds
