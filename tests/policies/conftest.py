"""A small dataset, and a light policy on it for every kind of tokenizer."""

from __future__ import annotations

import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.tokenizers import KINDS
from tests.policies import tiny


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    return oatkit.open_dataset(tiny.write_dataset(folder / "npz"), cache_dir=folder / "cache")


@pytest.fixture(scope="module")
def policies(dataset: Dataset) -> dict[str, Policy]:
    return {kind: tiny.make_policy(kind, dataset) for kind in KINDS}
