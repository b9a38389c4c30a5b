"""`oatkit policy calibrate`, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

import oatkit
from oatkit import cli
from oatkit.commands.policy_calibrate import describe_execution, describe_thresholds
from oatkit.policies.generation import threshold_calibration
from oatkit.policies.generation.auto_execution import AutoExecution
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.storage.artifact import change_config
from tests.commands.running import run_command
from tests.commands.running import train_policy as train


def test_a_policy_is_calibrated_again(
    data: Path,
    tokenizers: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "p"
    assert train(data, path, "--tokenizer", str(tokenizers / "klt"), "--steps", "1") == 0
    change_config(path, {"auto": {"change": 0.1, "entropy_bits": 2.0}})
    assert oatkit.load_policy(path).auto is None
    monkeypatch.setattr(threshold_calibration, "MARGIN", 1e6)
    command = ["policy", "calibrate", str(path), "--data", str(data)]
    code, out, _ = run_command(command, capsys)
    assert code == 0
    found = oatkit.load_policy(path).auto
    assert found is not None
    assert describe_thresholds(found) in out
    code, _, error = run_command([*command, "--action-dims", "0"], capsys)
    assert code == 2
    assert "the policy is for 3 action dimensions" in error
    assert cli.main(["policy", "measure", str(path), "--data", str(data)]) == 0


def test_thresholds_in_words() -> None:
    found = describe_thresholds(AutoThresholds((1, 4), (0.5, 2.0)))
    assert found.endswith(
        "so far is low: after 1 token if at most 0.50 bits, after 4 tokens if at most 2.00 bits; "
        "otherwise it generates all tokens"
    )
    assert "would not be faster here" in describe_thresholds(AutoThresholds())
    assert "nothing can stop early" in describe_thresholds(None)


def test_steps_in_words() -> None:
    flat, steep = (0.1,) * 32, (0.5,) * 32
    assert describe_execution(AutoExecution((), (flat,))) == "execute auto: 4 steps of a chunk"
    assert describe_execution(AutoExecution((1.0,), (flat, steep))) == (
        "execute auto: 4 steps of a chunk, 2 where the policy is unsure"
    )
