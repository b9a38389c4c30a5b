"""The ablations at the smallest scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import record, report, tokenizer_sweep
from oatkit.jobs import tokenizer_ablations


def test_ablations_become_two_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_ablations, "LEVELS", ((4, 4), (8, 5, 5)))
    monkeypatch.setattr(tokenizer_ablations, "HORIZONS", (8, 16))
    monkeypatch.setattr(tokenizer_ablations, "NUM_TOKENS", (1, 2))
    tokenizer_sweep.main(["--steps", "2", "--preset", "tiny", "--data", "data"])
    rows = record.RESULTS / "tokenizer_sweep.json"
    assert rows.exists()
    section = report.section("tokenizer_sweep")
    assert "| [4, 4] | 16 | yes |" in section
    assert "| [8, 8, 6, 5] | 1920 | no |" in section
    assert "| tokens | 8 actions | 16 actions |" in section
    assert section.count("\n| 1 | ") == section.count("\n| 2 | ") == 1
