"""`oatkit data view`: a recording from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.running import run_command
from tests.data import datasets
from tests.data.datasets import make_demos
from tests.data.rerun_reading import read_recording


def test_the_first_episodes_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    path = datasets.write_npz_file(tmp_path / "d.npz", make_demos((9,) * 7))
    out = tmp_path / "out/d.rrd"
    code, shown, _ = run_command(["data", "view", str(path), "--out", str(out)], capsys)
    assert code == 0
    assert "showing 5 of 7 episodes; --episodes chooses others" in shown
    assert f"next: rerun {out}" in shown
    assert len({entity.split("/")[1] for entity in read_recording(out)}) == 5
    command = ["data", "view", str(path), "--out", str(out), "--episodes", "6", "1"]
    code, shown, _ = run_command(command, capsys)
    assert code == 0
    assert "showing" not in shown
    names = {entity.split("/")[1] for entity in read_recording(out)}
    assert names == {"episode-0001", "episode-0006"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--tokenizer", "no/such"], "no/such"),
        (["--episodes", "9"], "none of the asked episodes (--episodes)"),
    ],
)
def test_bad_input(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = datasets.write_npz_file(tmp_path / "d.npz", make_demos())
    command = ["data", "view", str(path), "--out", str(tmp_path / "d.rrd"), *flags]
    code, _, error = run_command(command, capsys)
    assert code == 2
    assert message in error
