"""`oatkit data make robosuite` as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

import oatkit
from oatkit.cli import main
from tests.envs.robosuite_install import skip_without_robosuite


def test_a_dataset_is_made_and_the_next_command_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    skip_without_robosuite()
    out = tmp_path / "d"
    options = ("--tasks", "lift", "--episodes", "1", "--workers", "1", "--out", str(out))
    assert main(["data", "make", "robosuite", *options]) == 0
    assert len(oatkit.open_dataset(out)) == 1
    printed = capsys.readouterr().out
    assert "is ready" in printed
    assert "next: oatkit data info" in printed


def test_a_wrong_task_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "d")
    assert main(["data", "make", "robosuite", "--tasks", "lit", "--out", out]) == 2
    words = " ".join(capsys.readouterr().err.split())
    assert "unknown robosuite task 'lit'; known, closest first: lift" in words
