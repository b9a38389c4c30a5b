"""Results of commands as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from oatkit.commands.record_output import write_result
from oatkit.types import Invariant


def test_a_record_or_a_list_is_written_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = Invariant("a", holds=True, value=0.0), Invariant("é", holds=False, value=1.0)
    out = tmp_path / "deep" / "found [1].json"
    write_result(one, out, Console(width=300))
    assert json.loads(out.read_text()) == {"name": "a", "holds": True, "value": 0.0}
    assert capsys.readouterr().out == f"wrote {out}\n"
    write_result([one, other], out, Console(quiet=True))
    assert [record["name"] for record in json.loads(out.read_text("utf-8"))] == ["a", "é"]


def test_without_a_file_nothing_happens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_result(Invariant("a", holds=True, value=0.0), None, Console())
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []
