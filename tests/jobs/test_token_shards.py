"""Tokens of a dataset in shards: the same cache as in one run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit.errors import ShardError
from oatkit.jobs import token_cache, token_shards
from oatkit.jobs.shard_table import MERGES
from oatkit.jobs.token_shards import TokenWork
from oatkit.shards import ShardNumber, merge_folder, run_shard
from tests.policies import tiny


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenWork:
    for module in (token_cache, token_shards):
        monkeypatch.setattr(module, "CHUNKS_PER_BLOCK", 64)
    dataset = oatkit.open_dataset(tiny.write_dataset(tmp_path / "npz"))
    tokenizer = tiny.make_tokenizer("fast", dataset)
    token_cache.cached_tokens(tokenizer, dataset, tmp_path / "whole")
    return TokenWork(tokenizer, dataset, tmp_path / "merged")


def test_the_cache_is_that_of_one_run(work: TokenWork, tmp_path: Path) -> None:
    assert len(work.units()) == 4
    for index in (2, 0, 1):
        run_shard(work, ShardNumber(index, 3), tmp_path / "shards")
    path = merge_folder(tmp_path / "shards", MERGES)
    files = sorted((tmp_path / "whole/tokens").iterdir())
    assert [p.name for p in files] == [p.name for p in sorted(path.parent.iterdir())]
    for file in files:
        assert (path.parent / file.name).read_bytes() == file.read_bytes()


def test_a_changed_block_is_refused(work: TokenWork, tmp_path: Path) -> None:
    run_shard(work, ShardNumber(0, 1), tmp_path / "shards")
    path = tmp_path / "shards/tokens" / f"{64:012d}.npz"
    np.savez(path, ids=np.zeros(3, np.int32), lengths=np.ones(64, np.int64))
    with pytest.raises(ShardError, match=rf"{path.name} is damaged: remove it and"):
        merge_folder(tmp_path / "shards", MERGES)
    assert not (tmp_path / "merged").exists() or not any((tmp_path / "merged/tokens").iterdir())
