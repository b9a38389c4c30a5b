"""`oatkit tokenizer measure`, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oatkit import cli
from tests.jobs.walks import write_walks


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_walks(tmp_path_factory.mktemp("data") / "walks.npz")


def train(data: Path, out: Path, *flags: str) -> int:
    shared = ("--data", str(data), "--out", str(out), "--preset", "tiny", "--horizon", "8")
    return cli.main(["tokenizer", "train", *shared, *flags])


def test_measuring_says_when_the_data_drifted(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(data, tmp_path / "t", "--kind", "bin") == 0
    with np.load(data) as file:
        actions = file["action"].copy()
    actions[:, 1] *= 3
    np.savez(tmp_path / "other.npz", action=actions, episode_ends=np.arange(60, 1201, 60), fps=10)
    where = ("--data", str(tmp_path / "other.npz"), "--split", "all")
    assert cli.main(["tokenizer", "measure", str(tmp_path / "t"), *where]) == 0
    out = capsys.readouterr().out
    assert "fps is 10, fitted on 20" in out
    assert "dimension 1 ('action_1') drifted" in out
    assert "dimension 0" not in out
    assert "worst: largest absolute error of any action, raw units" in " ".join(out.split())


def test_actions_of_another_size_are_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(data, tmp_path / "t", "--kind", "bin") == 0
    with np.load(data) as file:
        np.savez(tmp_path / "other.npz", **{**file, "action": file["action"][:, :2]})
    where = ("--data", str(tmp_path / "other.npz"))
    assert cli.main(["tokenizer", "measure", str(tmp_path / "t"), *where]) == 2
    message = f"error: {tmp_path / 't'} is for 3 action dimensions, {where[1]} has 2: name its"
    assert message in capsys.readouterr().err
