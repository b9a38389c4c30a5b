"""A place to run the closed-loop benchmarks in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import record, report
from oatkit.envs.simulator_table import SIMULATORS
from oatkit.jobs import step_planning
from tests.evaluation.plane import PLANE, TASKS


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of the stored results."""
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Demonstrations of the plane in a folder to run benchmarks in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OATKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(step_planning, "TRIAL_STEPS", 2)
    for simulator in ("metaworld", "pusht"):
        monkeypatch.setitem(SIMULATORS, simulator, PLANE)
    rng = np.random.default_rng(0)
    Path("data").mkdir()
    for index in range(12):
        columns = {
            "action": rng.uniform(-1, 1, (40, 2)),
            "observation.state": rng.uniform(0, 2, (40, 2)),
            "observation.environment_state": rng.uniform(0, 2, (40, 2)),
        }
        np.savez(f"data/{index:02d}.npz", **columns, task=list(TASKS.values())[index % 2], fps=10)
    return tmp_path
