"""What policies are trained on; a file with other data has fixtures of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import oatkit
from oatkit.tokenizers import KINDS
from tests.policies import tiny


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_dataset(tmp_path_factory.mktemp("data") / "npz")


@pytest.fixture(scope="module")
def tokenizers(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizers")
    dataset = oatkit.open_dataset(data, cache_dir=folder / "cache")
    for kind in KINDS:
        tiny.make_tokenizer(kind, dataset).save_pretrained(folder / kind)
    return folder
