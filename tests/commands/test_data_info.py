"""`oatkit data info`: what is shown and written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from oatkit.commands.data_info import shortened_name, sparkline
from tests.commands.running import run_command
from tests.data import datasets
from tests.data.datasets import make_demos


def test_long_names_stay_different() -> None:
    names = [f"kLeftShoulderAndArm{part}PitchJoint" for part in ("Upper", "Lower")]
    short = [shortened_name(name, 24) for name in names]
    assert short == ["kLeftSh…mUpperPitchJoint", "kLeftSh…mLowerPitchJoint"]
    assert all(len(name) <= 24 for name in short)
    assert shortened_name("gripper", 24) == "gripper"


def test_data_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", make_demos(), codec="h264")
    record = tmp_path / "records" / "info.json"
    code, out, _ = run_command(["data", "info", str(root), "--out", str(record)], capsys)
    assert code == 0
    for text in (
        "LeRobot v3.0",
        "39  (3.9 seconds)",
        "7 / 10 / 12 / 16 / 20",
        "front  48x64",
        "3 x stack the cups",
        f"next: oatkit data check {root}",
    ):
        assert text in out
    lines = {
        line.split()[1]: line.split() for line in out.splitlines() if line[:3].strip().isdigit()
    }
    actions = np.concatenate([d.actions for d in make_demos()])
    assert lines["z"][2] == f"{actions[:, 2].min():.3g}"
    assert lines["z"][6] == f"{actions[:, 2].max():.3g}"
    saved = json.loads(record.read_text())
    assert (saved["schema"], saved["version"]) == ("oatkit/dataset-info", 2)
    assert sum(saved["action"][0]["histogram"]) == 39


def test_data_info_of_chosen_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = datasets.write_robomimic(tmp_path / "d.hdf5", make_demos())
    cache = tmp_path / "elsewhere"
    flags = ["--action-key", "obs/object", "states", "--state-key", "actions", "--action-dims"]
    more = [*flags, "0", "states_1", "--fps", "25", "--cache", str(cache)]
    code, out, _ = run_command(["data", "info", str(path), *more], capsys)
    assert code == 0
    assert "action  obs/object + states" in out
    assert "states_1" in out
    assert "states_0" not in out
    assert "fps            25" in out
    assert list(cache.rglob("actions.npy"))


def test_sparklines_show_everything_above_zero() -> None:
    assert sparkline([0, 1, 500, 1000]) == " ▁▄█"


def test_paths_with_brackets_and_spaces_are_shown_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = datasets.write_npz_file(tmp_path / "my [v1] data.npz", make_demos((40, 40)))
    record = tmp_path / "o [x].json"
    _, out, _ = run_command(["data", "info", str(path), "--out", str(record)], capsys)
    assert f"next: oatkit data check '{path}'" in out
    assert f"wrote {record}" in out
