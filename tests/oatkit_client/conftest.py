"""A small policy from state, and what `oatkit export` wrote of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import oatkit
from oatkit.data import Dataset
from tests.oatkit_client.exported import write_exported
from tests.policies import tiny


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return oatkit.open_dataset(str(tiny.write_dataset(Path(tmp_path_factory.mktemp("d")) / "data")))


@pytest.fixture(scope="module")
def exported(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A policy from state, and its files."""
    return write_exported(tmp_path_factory.mktemp("export"), dataset)
