"""`oatkit launch` as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.running import run_command
from tests.shards.launchers.tokenizing import tokenizing


def test_shards_run_and_are_joined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = tokenizing(tmp_path, "run")
    code, shown, _ = run_command(["launch", "--on", "local:2", "--", *asked.words], capsys)
    assert code == 0
    assert shown == f"wrote {next((asked.cache / 'tokens').glob('*.ids'))}\n"


def test_commands_that_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run_command(["launch", "--", "data", "info", "x", "--out", "d"], capsys)
    assert code == 2
    assert "'data info x' is not cut into shards; these are: policy eval," in error
