"""A fast simulator and demonstrations for it in place of MetaWorld and its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oatkit.envs.simulator_table import SIMULATORS
from oatkit.jobs import reproduction_scales
from tests.evaluation.plane import PLANE, TASKS


def plane_demonstrations(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Demonstrations from state and with images, by the names that the smaller scales have."""
    for simulator in ("metaworld", "pusht", "robosuite"):
        monkeypatch.setitem(SIMULATORS, simulator, PLANE)
    monkeypatch.setattr(reproduction_scales, "CAMERA", "top")
    monkeypatch.setenv("OATKIT_CACHE", str(folder / "cache"))
    monkeypatch.setenv("COLUMNS", "400")
    rng = np.random.default_rng(0)
    for name in ("metaworld", "doors"):
        (folder / name).mkdir()
        for index in range(10):
            columns = {
                "action": rng.uniform(-1, 1, (40, 2)),
                "observation.state": rng.uniform(0, 2, (40, 2)),
                "observation.environment_state": rng.uniform(0, 2, (40, 2)),
            }
            if name == "doors":
                columns["observation.images.top"] = rng.integers(
                    0, 255, (40, 32, 32, 3), dtype=np.uint8
                )
            task = list(TASKS.values())[index % 2]
            np.savez(folder / name / f"{index}.npz", **columns, task=task, fps=10)
    return {name: folder / name for name in ("metaworld", "doors")}
