"""Tokens of a dataset: computed once, and those of the tokenizer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit.jobs import token_cache
from oatkit.tokenizers import ActionTokenizer
from tests.policies import tiny


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_dataset(tmp_path_factory.mktemp("data") / "npz")


@pytest.fixture(scope="module")
def tokenizers(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_tokenizers(tmp_path_factory.mktemp("tokenizers"), data)


def test_tokens_are_computed_once(
    data: Path, tokenizers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dataset = oatkit.open_dataset(data)
    for kind in ("fast", "klt"):
        tokenizer = oatkit.load_tokenizer(tokenizers / kind)
        monkeypatch.setattr(token_cache, "CHUNKS_PER_BLOCK", 64)
        table = token_cache.cached_tokens(tokenizer, dataset, tmp_path)
        rows = np.array([0, 7, 199, 63, 64])
        found = table.take(rows)
        wanted = tokenizer.encode(dataset.chunks(tiny.HORIZON).actions(rows)[0])
        assert len(table) == 200
        assert found.ids.tolist() == wanted.ids.tolist()
        assert found.lengths.tolist() == wanted.lengths.tolist()

    def never(*_: object) -> None:
        raise AssertionError("encoded again")

    monkeypatch.setattr(ActionTokenizer, "encode", never)
    again = token_cache.cached_tokens(oatkit.load_tokenizer(tokenizers / "klt"), dataset, tmp_path)
    assert again.take(rows).ids.tolist() == wanted.ids.tolist()
    with pytest.raises(AssertionError, match="encoded again"):
        token_cache.cached_tokens(oatkit.load_tokenizer(tokenizers / "oat"), dataset, tmp_path)
