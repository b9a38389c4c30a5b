"""How recordings are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import robosuite_replay
from tests.envs.robosuite_install import skip_without_robosuite


def test_a_file_is_measured_and_kept_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_robosuite()
    from tests.jobs.robosuite_files import write_recording

    kept = {}
    monkeypatch.setattr(robosuite_replay, "read_results", lambda name: {"z": 1})
    monkeypatch.setattr(robosuite_replay, "write_result", lambda name, **what: kept.update(what))
    robosuite_replay.main([str(write_recording(tmp_path / "own.hdf5", "lift")), "--episodes", "2"])
    assert list(kept["results"]) == ["own", "z"]
    row = kept["results"]["own"]
    assert (row["episodes"], row["recordings"], row["robosuite_name"]) == (2, 1, "Lift")
    assert 0 < row["successes"] <= 2
