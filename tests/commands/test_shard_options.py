from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from oatkit.commands.shard_options import run_as_shard
from tests.shards.toy_work import Squares


def test_progress_and_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a folder"
    assert run_as_shard(Squares(3), "1/2", out, Console()) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("n/1 (1 of 1)\nshard 1/2: 1 units\n")
    assert shown.endswith(f"oatkit merge '{out}'\n")
