"""What policies are trained on; a file with other data has fixtures of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policies import tiny


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_dataset(tmp_path_factory.mktemp("data") / "npz")


@pytest.fixture(scope="module")
def tokenizers(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_tokenizers(tmp_path_factory.mktemp("tokenizers"), data)
