"""`oatkit data convert` as it is typed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oatkit.data import open_dataset
from tests.commands.running import run_command
from tests.data import datasets
from tests.data.datasets import make_demos


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(datasets.write_npz_folder(tmp_path / "d", make_demos()))


def test_data_convert(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    wanted = ["--shift-actions", "1", "--resample", "20", "--episodes", "0", "2:"]
    code, text, _ = run_command(["data", "convert", data, "--out", out, *wanted], capsys)
    assert code == 0
    assert f"wrote {out}: 2 episodes, 58 frames at 20 fps" in text
    assert f"next: oatkit data check {out}" in text
    code, text, _ = run_command(["data", "info", out], capsys)
    assert (code, "LeRobot v3.0" in text) == (0, True)


def test_a_declaration_goes_on(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    declare = ["--declare", "delta:0-1", "unwrap:2"]
    assert run_command(["data", "convert", data, "--out", first, *declare], capsys)[0] == 0
    assert run_command(["data", "convert", first, "--out", second], capsys)[0] == 0
    dataset = open_dataset(second)
    assert str(dataset.transform) == "delta:0-1 unwrap:2"
    np.testing.assert_array_equal(dataset[0].actions, make_demos()[0].actions)
    code, text, _ = run_command(["data", "info", second], capsys)
    assert (code, "delta:0-1 unwrap:2" in text) == (0, True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--actions", "relative:0@0"], "depends on where a chunk starts"),
        (["--actions", "unwrap:2,2"], "is named twice in 'unwrap:2,2'"),
        (["--cameras", "top"], "unknown camera 'top': there are none"),
    ],
)
def test_wrong_flags_are_one_sentence(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    words = ["data", "convert", data, "--out", str(tmp_path / "out"), *flags]
    code, _, errors = run_command(words, capsys)
    assert code == 2
    assert message in " ".join(errors.split())
