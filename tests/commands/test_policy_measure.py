"""`oatkit policy measure`, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit import cli
from oatkit.storage.records import read_records
from oatkit.types import PolicyMeasurement
from tests.commands.running import train_policy as train
from tests.policies import tiny


def test_a_policy_is_measured_on_the_state_it_was_trained_on(
    data: Path, tokenizers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in sorted(data.iterdir()):
        with np.load(path) as file:
            goal = file["observation.state"][:, :2]
            np.savez(other / path.name, **{**file, "observation.goal": goal})
    keys = ("--state-key", "observation.state", "observation.goal")
    flags = ("--tokenizer", str(tokenizers / "bin"), "--steps", "1", *keys)
    assert train(other, tmp_path / "p", *flags) == 0
    assert oatkit.load_policy(tmp_path / "p").spec.state_dim == 7
    measure = ("policy", "measure", str(tmp_path / "p"), "--data", str(other))
    assert cli.main(measure) == 0
    assert cli.main([*measure, "--state-key", "observation.state"]) == 2
    assert "observation.state is (20, 2, 5), expected (7,)" in capsys.readouterr().err


def measure(
    policy: Path, data: Path, capsys: pytest.CaptureFixture[str], *flags: str
) -> tuple[PolicyMeasurement, str]:
    """The record and what was printed."""
    out = policy.parent / "measured.json"
    where = ("--data", str(data), "--out", str(out))
    assert cli.main(["policy", "measure", str(policy), *where, *flags]) == 0
    (found,) = read_records(out, PolicyMeasurement)
    return found, capsys.readouterr().out


def test_what_needs_no_network_stands_below_and_is_named_where_it_is_better(
    data: Path, tokenizers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--tokenizer", str(tokenizers / "oat"), "--steps", "1")
    assert train(data, tmp_path / "p", *flags) == 0
    warning = "note: the policy's best error"
    assert warning in capsys.readouterr().out, "also at the end of training"
    found, printed = measure(tmp_path / "p", data, capsys)
    assert [baseline.name for baseline in found.baselines] == ["hold", "mean chunk", "ridge"]
    for baseline in found.baselines:
        assert f"{baseline.name:>10}         -         -{baseline.mse:>10.2e}" in printed
    for column in ("no tail: MSE", "true ids: MSE", "reached: share", "surprise: bits"):
        assert column in printed, "every column is explained"
    for row in ("action before the chunk (hold)", "linear regression from the state (ridge)"):
        assert row in printed, "every row is explained"
    assert found.train_loss is not None
    assert warning in printed
    assert "a linear regression from the state" in printed


def test_the_likeliest_tokens_are_the_same_with_every_seed(
    data: Path, tokenizers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--tokenizer", str(tokenizers / "oat"), "--steps", "1")
    assert train(data, tmp_path / "p", *flags) == 0
    greedy = [
        measure(tmp_path / "p", data, capsys, "--temperature", "0", "--seed", seed)[0]
        for seed in ("0", "1")
    ]
    sampled = [measure(tmp_path / "p", data, capsys, "--seed", seed)[0] for seed in ("0", "1")]
    assert greedy[0].budgets == greedy[1].budgets
    assert len({sampled[0].budgets, sampled[1].budgets, greedy[0].budgets}) == 3
    assert greedy[1].sampling == oatkit.Sampling(temperature=0, seed=1)
    assert measure(tmp_path / "p", data, capsys)[0].budgets == sampled[0].budgets


def test_a_policy_that_does_not_know_its_episodes_has_no_baselines(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = oatkit.open_dataset(data)
    tiny.make_policy("bin", dataset).save_pretrained(tmp_path / "p")
    found, _ = measure(tmp_path / "p", data, capsys, "--split", "all")
    assert (found.baselines, found.train_loss) == ((), None)
