"""`oatkit policy measure`, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit import cli
from tests.commands.running import train_policy as train


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
