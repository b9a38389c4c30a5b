"""Policies on the tokens of every kind of a comparison, all trained for the same steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.errors import ArtifactError
from oatkit.jobs import policy_probe
from oatkit.jobs.policy_probe import PolicyProbe
from oatkit.jobs.policy_training import PolicyTraining
from oatkit.types import TokenizerComparison
from tests.jobs.walks import write_walks
from tests.policies import tiny

SMALL: dict[str, Any] = {"preset": "tiny", "horizon": 8, "num_tokens": 2, "levels": (5, 4)}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    return oatkit.open_dataset(tiny.write_dataset(folder / "d"), cache_dir=folder / "cache")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)
    monkeypatch.setattr(
        "oatkit.measure.reports.comparison_report.write_comparison_report", lambda *_: []
    )
    steps = {"klt": 9, "bin": 4}

    def affordable(training: PolicyTraining, minutes: float, device: object) -> int:
        return round(minutes * steps[training.policy.tokenizer.kind])

    monkeypatch.setattr(PolicyTraining, "affordable_steps", affordable)


def compare(dataset: Dataset, out: Path | None, *kinds: str, **changes: Any) -> TokenizerComparison:
    return oatkit.compare(dataset, kinds, out, **{**SMALL, "policy_minutes": 1.0, **changes})


def test_all_train_for_as_long_as_the_slowest_has_time(dataset: Dataset, tmp_path: Path) -> None:
    found = compare(dataset, tmp_path, "klt", "bin")
    assert (found.policy_steps, found.policy_minutes) == (4, 1.0)
    for kind in found.kinds:
        name, policy = kind.measurement.kind, kind.policy
        config = json.loads((tmp_path / "policies" / name / "config.json").read_text())
        assert config["train"]["steps"] == 4
        assert policy is not None
        assert (policy.kind, policy.split) == (name, "val")
        assert [b.budget for b in policy.budgets] == [
            b.budget for b in kind.measurement.budgets if b.is_trained
        ]
        assert [b.name for b in policy.baselines] == ["hold", "mean chunk", "ridge"]
    first, second = (kind.policy.baselines for kind in found.kinds if kind.policy)
    assert first == second, "the same chunks of the same episodes"


def test_the_preset_is_never_exceeded(dataset: Dataset) -> None:
    found = compare(dataset, None, "klt", policy_minutes=1000.0, train={"steps": 1})
    assert found.policy_steps == 60


def test_policies_can_be_added_later_and_stay(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compare(dataset, tmp_path, "klt", policy_minutes=None).kinds[0].policy is None
    added = compare(dataset, tmp_path, "klt")
    assert added.policy_steps == 9
    assert added.kinds[0].policy is not None
    monkeypatch.setattr(PolicyTraining, "run", lambda *_, **__: pytest.fail("trained again"))
    same = compare(dataset, tmp_path, "klt")
    assert same.kinds[0].policy.budgets == added.kinds[0].policy.budgets  # type: ignore[union-attr]
    without = compare(dataset, tmp_path, "klt", policy_minutes=None)
    assert without.kinds[0].policy is not None, "a later call without policies keeps them"
    monkeypatch.undo()


def test_a_kind_that_comes_later_trains_for_the_same_steps(
    dataset: Dataset, tmp_path: Path
) -> None:
    compare(dataset, tmp_path, "klt")
    found = compare(dataset, tmp_path, "klt", "bin")
    assert found.policy_steps == 9
    config = json.loads((tmp_path / "policies/bin/config.json").read_text())
    assert config["train"]["steps"] == 9


def test_a_stopped_probe_measures_what_it_trained(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = policy_probe.measure_policy

    def stopped(*_: Any, **__: Any) -> Any:
        raise OSError("the power went out")

    monkeypatch.setattr(policy_probe, "measure_policy", stopped)
    with pytest.raises(OSError, match="the power went out"):
        compare(dataset, tmp_path, "klt")
    monkeypatch.setattr(policy_probe, "measure_policy", real)
    before = (tmp_path / "policies/klt/model.safetensors").stat().st_mtime_ns
    assert compare(dataset, tmp_path, "klt").kinds[0].policy is not None
    assert (tmp_path / "policies/klt/model.safetensors").stat().st_mtime_ns == before


def test_another_time_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    compare(dataset, tmp_path, "klt")
    message = "were trained with policy_minutes 1, now 2: use the same, or another --out"
    with pytest.raises(ArtifactError, match=message):
        compare(dataset, tmp_path, "klt", policy_minutes=2.0)


def test_what_cannot_be_trained_is_refused_first(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="policy_minutes is 0, expected more than 0"):
        compare(dataset, tmp_path / "c", "klt", policy_minutes=0)
    walks = oatkit.open_dataset(write_walks(tmp_path / "w.npz"), cache_dir=tmp_path / "cache")
    with pytest.raises(ValueError, match="has no state for a policy to read: name its columns"):
        PolicyProbe(walks, 1.0, "tiny")
    assert not (tmp_path / "c").exists()
