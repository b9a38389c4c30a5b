"""What several tests of jobs read and none changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.plane_policy import save_plane_policy
from tests.jobs.demonstrations import make
from tests.jobs.plane_evaluations import Eval, run_in_plane


@pytest.fixture(scope="session")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset as `make` makes it."""
    pytest.importorskip("metaworld", reason="needs the extra metaworld")
    return make(tmp_path_factory.mktemp("demonstrations") / "d")


@pytest.fixture(scope="session")
def plane_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained policy for the plane."""
    return save_plane_policy(tmp_path_factory.mktemp("plane"))


@pytest.fixture
def run(plane_policy: Path, tmp_path: Path) -> Eval:
    """What evaluates it; records are below `tmp_path`."""
    return run_in_plane(plane_policy, tmp_path)
