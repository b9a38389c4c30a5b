"""The PushT benchmark at the smallest scale, in a fast simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from benchmarks import policy_pusht, record, report
from oatkit.envs.pusht import KEYPOINTS_KEY
from oatkit.jobs import reproduction_scales
from oatkit.types.observation_keys import ENVIRONMENT_STATE
from tests.benchmarks.tiny import TINY


def test_scores_stand_beside_published_ones(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--pusht", "data", "--only", "oat-pow2", *TINY]
    policy_pusht.main(command)
    row = record.read_results("policy_pusht")["oat-pow2"]
    assert [b["budget"] for b in row["budgets"]] == [1, 2, 4, 8, "auto"]
    assert (row["protocol"]["horizon"], row["protocol"]["execute"]) == (16, 8)
    assert all(0 < b["score"] < 1 for b in row["budgets"])
    section = report.section("policy_pusht")
    assert f"| {row['budgets'][0]['score']:.3f} +- {row['score_half_widths'][0]:.3f} |" in section
    assert "| Diffusion Policy | keypoints | | | | | | 0.91 to 0.95 | |" in section
    policy_pusht.main(command)
    assert "oat-pow2 is finished" in capsys.readouterr().out


def test_every_row_runs_from_state_and_from_keypoints(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator of this test has no keypoints: another column is read in their place."""
    monkeypatch.setattr(policy_pusht, "keypoint_data", lambda zarr: zarr)
    monkeypatch.setitem(reproduction_scales.PUSHT_COLUMNS, "pusht-keypoints", ENVIRONMENT_STATE)
    policy_pusht.main(["--pusht", "data", *TINY])
    policy_pusht.main(["--zarr", "data", "--only", "quest", *TINY])
    rows = record.read_results("policy_pusht")
    assert set(rows) == {*policy_pusht.TABLE.rows, "quest, keypoints"}
    assert "| `quest, keypoints` | keypoints | 4 | 0 |" in report.section("policy_pusht")
    with pytest.raises(ValueError, match="your copy of the human demonstrations"):
        policy_pusht.main([*TINY])


def test_keypoints_come_from_the_replay_buffer(folder: Path) -> None:
    zarr = pytest.importorskip("zarr", reason="needs the extra data")
    rng = np.random.default_rng(0)
    columns = {"action": (9, 2), "state": (9, 5), "keypoint": (9, 9, 2)}
    arrays = {f"data/{k}": rng.normal(size=shape).astype("f4") for k, shape in columns.items()}
    arrays["meta/episode_ends"] = np.array([4, 9])
    group = zarr.open_group("buffer.zarr", mode="w", zarr_format=2)
    for name, values in arrays.items():
        group.create_array(name, shape=values.shape, dtype=values.dtype)[:] = values
    found = policy_pusht.keypoint_data(Path("buffer.zarr"))
    dataset = oatkit.open_dataset(found, state_key=("observation.state", KEYPOINTS_KEY))
    second = dataset[1].state
    np.testing.assert_array_equal(second[:, :2], arrays["data/state"][4:, :2])
    np.testing.assert_array_equal(second[:, 2:], arrays["data/keypoint"][4:].reshape(5, 18))
