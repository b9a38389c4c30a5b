"""One lab for all tests of the room."""

from __future__ import annotations

import pytest

from oatkit.lab import Lab
from tests.lab import small


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder = tmp_path_factory.mktemp("lab")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OATKIT_CACHE", str(folder / "cache"))
        return small.make_lab(folder)
