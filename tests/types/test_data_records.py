"""Records about datasets survive JSON, with what they hold inside."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from oatkit.data import open_dataset
from oatkit.data.check import check_dataset
from oatkit.data.info import summarize_dataset
from oatkit.storage.records import record_from_json, record_to_json
from oatkit.types import CheckKind, DatasetCheck, DatasetInfo, Finding


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    actions = np.c_[rng.normal(size=60), np.full(60, 3.0)]
    np.savez(tmp_path / "a.npz", action=actions, episode_ends=[20, 60], task="tidy up")
    return tmp_path / "a.npz"


def test_a_summary_survives_json_and_counts_every_frame(data: Path, tmp_path: Path) -> None:
    info = summarize_dataset(open_dataset(data, cache_dir=tmp_path))
    back = record_from_json(DatasetInfo, json.loads(json.dumps(record_to_json(info))))
    assert back == info
    assert back.length_quantiles == tuple(sorted(back.length_quantiles))
    assert [sum(dimension.histogram) for dimension in back.action] == [60, 60]
    assert [task.num_episodes for task in back.tasks] == [2]
    with pytest.raises(FrozenInstanceError):
        back.fps = 1.0  # type: ignore[misc]


def test_findings_are_of_known_kinds(data: Path, tmp_path: Path) -> None:
    found = check_dataset(open_dataset(data, cache_dir=tmp_path), horizon=32)
    assert record_from_json(DatasetCheck, json.loads(json.dumps(record_to_json(found)))) == found
    kinds = {finding.kind for finding in found.findings}
    assert {"constant", "short-episode"} <= kinds <= set(get_args(CheckKind))
    assert all(isinstance(finding, Finding) and finding.remedy for finding in found.findings)
