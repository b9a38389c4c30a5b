"""A place to run the closed-loop benchmarks in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks import record
from oatkit.envs.simulator_table import SIMULATORS
from oatkit.jobs import step_planning
from tests.evaluation.plane import PLANE, TASKS

WITHOUT_TINY = {"fit_streams", "klt_variants", "oat_curves", "real_data"}
"""Benchmarks of the folder below that have no tiny scale."""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of the stored results."""
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Demonstrations of the plane in a folder to run benchmarks in at their tiny scale, which has
    to leave the stored results alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OATKIT_CACHE", str(tmp_path / "cache"))
    stored = tmp_path / "stored"
    monkeypatch.setattr(record, "RESULTS", stored)
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
    yield tmp_path
    assert {path.stem for path in stored.glob("*.json")} <= WITHOUT_TINY
