"""Every simulator of the table says what evaluation, videos and the command line need."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tomllib

from oatkit.envs.simulator import SimulatorKind
from oatkit.envs.simulator_table import SIMULATORS, simulator_kind

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("kind", SIMULATORS.values(), ids=lambda kind: kind.name)
def test_a_kind_is_complete(kind: SimulatorKind) -> None:
    low_A, high_A = kind.bounds
    assert low_A.shape == high_A.shape
    assert (low_A < high_A).all()
    assert np.isfinite([low_A, high_A]).all()
    assert set(kind.default_tasks) <= set(kind.tasks)
    assert all(kind.tasks.values())
    assert all(kind.cameras.values())
    assert kind.cameras
    assert min(kind.fps, kind.max_steps) > 0


@pytest.mark.parametrize("kind", SIMULATORS.values(), ids=lambda kind: kind.name)
def test_its_extra_installs_its_packages(kind: SimulatorKind) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    installed = " ".join(extras[kind.extra])
    assert kind.packages[0] in installed


@pytest.mark.parametrize("kind", SIMULATORS.values(), ids=lambda kind: kind.name)
def test_docs_name_it(kind: SimulatorKind) -> None:
    page = (ROOT / "docs/evaluation.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{kind.name}` |"))
    _, _, num_tasks, _, actions, cameras, extra, _ = (cell.strip() for cell in row.split("|"))
    low, high = kind.action_low, kind.action_high
    assert num_tasks == str(len(kind.tasks))
    assert actions == f"{len(low)} in [{low[0]:g}, {high[0]:g}]"
    assert cameras == ", ".join(f"`{camera}`" for camera in kind.cameras)
    assert extra == f"`{kind.extra}`"


def test_a_name_is_looked_up() -> None:
    for name in SIMULATORS:
        assert simulator_kind(name).name == name
    with pytest.raises(ValueError, match="unknown simulator 'metawrld'; known, closest first: m"):
        simulator_kind("metawrld")
