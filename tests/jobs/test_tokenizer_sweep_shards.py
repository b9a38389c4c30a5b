"""Sweeps of tokenizers in shards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.jobs.shard_table import MERGES
from oatkit.jobs.tokenizer_ablations import TokenizerSweepPlan, sweep_tokenizer
from oatkit.jobs.tokenizer_sweep_shards import TokenizerSweepWork
from oatkit.shards import ShardNumber, merge_folder, run_shard
from oatkit.storage.records import read_record
from oatkit.types import TokenizerSweep
from tests.jobs.walks import write_walks

HOW = {"kind": "oat", "preset": "tiny", "train": {"steps": 2, "batch_size": 8, "seed": 3}}


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)
    monkeypatch.setattr("oatkit.jobs.tokenizer_ablations.LEVELS", ((5, 4), (8, 8, 6, 5)))
    monkeypatch.setattr("oatkit.jobs.tokenizer_ablations.HORIZONS", (8,))
    monkeypatch.setattr("oatkit.jobs.tokenizer_ablations.NUM_TOKENS", (2,))
    return oatkit.open_dataset(write_walks(tmp_path / "walks.npz"))


def test_rows_of_one_training_are_one_unit(dataset: Dataset) -> None:
    """The full size is a row of two ablations."""
    plan = TokenizerSweepPlan(dataset, **HOW)  # type: ignore[arg-type]
    assert len(plan.rows()) == 5
    assert len(TokenizerSweepWork(plan).units()) == 4


def test_any_number_of_shards(dataset: Dataset, tmp_path: Path) -> None:
    merged = []
    for count in (1, 2):
        folder = tmp_path / f"in-{count}"
        for index in range(count):
            work = TokenizerSweepWork(TokenizerSweepPlan(dataset, **HOW))  # type: ignore[arg-type]
            run_shard(work, ShardNumber(index, count), folder)
        merged.append(merge_folder(folder, MERGES).read_bytes())
    assert merged[0] == merged[1]
    whole = sweep_tokenizer(dataset, tmp_path / "whole.json", **HOW)  # type: ignore[arg-type]
    found = read_record(tmp_path / "in-2/sweep.json", TokenizerSweep)
    rows = tuple(replace(row, seconds=0.0) for row in whole.rows)
    assert found.rows == rows
    assert (found.data, found.schema) == (whole.data, whole.schema)
