"""What several tests of jobs read and none changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.demonstrations import make


@pytest.fixture(scope="session")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset as `make` makes it."""
    pytest.importorskip("metaworld", reason="needs the extra metaworld")
    return make(tmp_path_factory.mktemp("demonstrations") / "d")
