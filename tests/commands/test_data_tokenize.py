"""`oatkit data tokenize`: the cache that training reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import oatkit
from oatkit.jobs.token_cache import token_paths
from tests.commands.running import run_command
from tests.jobs.walks import write_walks


def test_the_cache_of_the_training_episodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, made, cache = write_walks(tmp_path / "w.npz"), tmp_path / "t", tmp_path / "cache"
    dataset = oatkit.open_dataset(data, cache_dir=cache)
    tokenizer = oatkit.train_tokenizer(dataset, "bin", made, preset="tiny", horizon=8)
    command = ["data", "tokenize", str(data), "--tokenizer", str(made), "--cache", str(cache)]
    code, shown, _ = run_command(command, capsys)
    assert code == 0
    train_set = dataset.split(0.1, seed=0)[0]
    ids, ends = token_paths(tokenizer, train_set)
    assert f"{train_set.num_frames:,} chunks are encoded in {ids}" in shown
    expected = ids.read_bytes()
    ids.unlink()
    ends.unlink()
    for index in range(2):
        shards = ["--shard", f"{index}/2", "--out", str(tmp_path / "shards")]
        assert run_command([*command, *shards], capsys)[0] == 0
    code, shown, _ = run_command(["merge", str(tmp_path / "shards")], capsys)
    assert (code, shown) == (0, f"wrote {ids}\n")
    assert ids.read_bytes() == expected
    code, _, error = run_command([*command, "--shard", "0/2"], capsys)
    assert code == 2
    assert "--shard and --out belong together" in error
    assert run_command([*command, "--held-out", "0.5"], capsys)[0] == 0
