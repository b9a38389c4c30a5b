"""What the tests with the real LeRobot share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def made_by_oatkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes that `oatkit data make metaworld` wrote, with small images."""
    folder = tmp_path_factory.mktemp("made") / "metaworld"
    program = Path(sys.executable).with_name("oatkit")
    task = ["--tasks", "reach", "--episodes", "2", "--workers", "1", "--out", str(folder)]
    images = ["--images", "--image-size", "64", "64", "--no-shadows"]
    subprocess.run([program, "data", "make", "metaworld", *task, *images], check=True, timeout=600)
    return folder
