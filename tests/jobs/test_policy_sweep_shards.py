"""Sweeps in closed loop in shards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.jobs import policy_ablations
from oatkit.jobs.policy_ablations import plan_policy_sweep, sweep_policy
from oatkit.jobs.policy_sweep_shards import PolicySweepWork
from oatkit.jobs.shard_table import MERGES
from oatkit.shards import ShardNumber, merge_folder, run_shard
from oatkit.storage.records import read_record
from oatkit.types import PolicySweep
from tests.evaluation.plane import PLANE, TASKS

KEYS = ("observation.state", "observation.environment_state")
HOW: dict[str, Any] = {
    **{"preset": "tiny", "tokenizer_steps": 2, "train": {"steps": 2}, "episodes": 1},
    **{"simulator": PLANE, "workers": 1},
}


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.setattr(policy_ablations, "HORIZONS", (8,))
    monkeypatch.setattr(policy_ablations, "NUM_TOKENS", (2,))
    monkeypatch.setattr(policy_ablations, "LEVELS", ((8, 6, 5),))
    rng = np.random.default_rng(0)
    columns = {"action": rng.uniform(-1, 1, (400, 2))}
    columns |= {key: rng.uniform(0, 2, (400, 2)) for key in KEYS}
    ends = np.arange(40, 401, 40)
    np.savez(tmp_path / "d.npz", **columns, episode_ends=ends, task=[TASKS["near"]] * 10, fps=10)
    return oatkit.open_dataset(tmp_path / "d.npz", state_key=KEYS)


def test_any_number_of_shards(dataset: Dataset, tmp_path: Path) -> None:
    merged = []
    for count in (1, 2):
        for index in range(count):
            work = PolicySweepWork(plan_policy_sweep(dataset, **HOW))
            assert len(work.units()) == 2, "two ablations of the horizon share a policy"
            run_shard(work, ShardNumber(index, count), tmp_path / str(count))
        merged.append(merge_folder(tmp_path / str(count), MERGES).read_bytes())
    assert merged[0] == merged[1]
    whole = sweep_policy(dataset, tmp_path / "whole.json", **HOW)
    found = read_record(tmp_path / "2/sweep.json", PolicySweep)
    assert [(r.ablation, r.execute, r.result.success) for r in found.rows] == [
        (r.ablation, r.execute, r.result.success) for r in whole.rows
    ]
    assert replace(found, rows=(), settings={}) == replace(whole, rows=(), settings={})
