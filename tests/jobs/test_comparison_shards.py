"""Comparisons in shards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import oatkit
from oatkit.data import Dataset
from oatkit.jobs.comparison_plan import ComparisonPlan
from oatkit.jobs.comparison_shards import ComparisonWork
from oatkit.jobs.shard_table import MERGES
from oatkit.shards import ShardNumber, merge_folder, run_shard
from oatkit.storage.records import read_record
from oatkit.types import KindComparison, TokenizerComparison
from tests.jobs.walks import write_walks

SIZES = {"horizon": 8, "num_tokens": 4, "levels": (5, 4)}
SPLIT = {"held_out": 0.1, "split_seed": 0}


def work(dataset: Dataset, **changes: Any) -> ComparisonWork:
    settings: dict[str, Any] = {"minutes": None, "train": {"steps": 2}, **changes}
    plan = ComparisonPlan(dataset, ("bin", "oat"), "tiny", SIZES, SPLIT, **settings)
    return ComparisonWork(plan, Console(quiet=True))


def timeless(kind: KindComparison) -> KindComparison:
    measurement = replace(
        kind.measurement, path="", encode_chunks_per_s=0.0, decode_chunks_per_s=0.0
    )
    return replace(kind, measurement=measurement, seconds=0.0)


def test_kinds_in_two_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)
    dataset = oatkit.open_dataset(write_walks(tmp_path / "walks.npz"))
    merged = []
    for count in (1, 2):
        (tmp_path / str(count)).mkdir()
        monkeypatch.chdir(tmp_path / str(count))
        for index in range(count):
            run_shard(work(dataset), ShardNumber(index, count), Path("run"))
        merged.append(merge_folder(Path("run"), MERGES).read_bytes())
    assert merged[0] == merged[1]
    record = read_record("run/comparison.json", TokenizerComparison)
    assert [kind.measurement.path for kind in record.kinds] == ["run/oat", "run/bin"]
    assert all((Path(kind.measurement.path) / "config.json").exists() for kind in record.kinds)
    whole = oatkit.compare(dataset, ("bin", "oat"), train={"steps": 2}, preset="tiny", **SIZES)
    assert tuple(map(timeless, record.kinds)) == tuple(map(timeless, whole.kinds))
    settings = json.loads(json.dumps(whole.settings))
    assert replace(record, kinds=()) == replace(whole, kinds=(), settings=settings)


def test_minutes_differ_between_machines(tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(write_walks(tmp_path / "walks.npz"))
    with pytest.raises(ValueError, match="--minutes is not for --shard"):
        work(dataset, minutes=1.0, train={})
