from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.errors import ShardError
from oatkit.jobs.shard_table import MERGES
from oatkit.shards import ShardNumber, run_shard
from oatkit.shards.launchers.launching import finished_units, launch
from tests.shards.launchers.tokenizing import NUM_UNITS, tokenizing
from tests.shards.toy_work import Squares


def test_processes_give_the_same_bytes_as_one(tmp_path: Path) -> None:
    one, three = tokenizing(tmp_path, "one"), tokenizing(tmp_path, "three")
    launch(one.words, MERGES, on="local:1")
    seen: list[tuple[int, int]] = []
    path = launch(
        three.words, MERGES, on="local:2", shards=3, progress=lambda *now: seen.append(now)
    )
    assert path.parent == three.cache / "tokens"
    assert one.tokens() == three.tokens()
    assert seen[-1] == (NUM_UNITS, NUM_UNITS)


def test_what_failed_is_told(tmp_path: Path) -> None:
    words = [*tokenizing(tmp_path, "run").words, "--action-key", "nothing"]
    with pytest.raises(ShardError, match=r"2 of 2 shards failed: shard 0 \(exit code 2: .*nothing"):
        launch(words, MERGES, on="local:2")


@pytest.mark.parametrize(
    ("words", "how", "message"),
    [
        (["x", "--out", "d"], {"on": "moon:1"}, "--on: unknown engine 'moon'"),
        (["x", "--out", "d"], {"on": "ray"}, "expected local:PROCESSES, slurm:FILE.toml or ray"),
        (["x", "--out", "d"], {"on": "local:many"}, "expected a number of processes"),
        (["x", "--out", "d"], {"on": "ray:auto"}, "--shards is None, expected 1 or more"),
        (["x", "--out", "d"], {"shards": 0}, "--shards is 0, expected 1 or more"),
        (["x", "--out"], {}, "name the folder of the shards with --out"),
        (["x", "--shard", "0/2", "--out", "d"], {}, "leave --shard out"),
    ],
)
def test_wrong_arguments(words: list[str], how: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        launch(words, MERGES, **how)  # type: ignore[arg-type]


def test_finished_units_are_counted(tmp_path: Path) -> None:
    assert finished_units(tmp_path) == (0, 0)
    run_shard(Squares(7), ShardNumber(1, 2), tmp_path)
    assert finished_units(tmp_path) == (3, 7)
