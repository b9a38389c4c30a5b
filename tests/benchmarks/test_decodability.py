"""Which kinds decode whatever ids they are given."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks import decodability, record, report, tokenizer_findings
from benchmarks.claim_findings import AGREES
from oatkit.jobs.paper_tables import PAPER_KINDS


def test_every_kind_is_tried_and_fast_alone_fails(
    results: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "RESULTS", folder / "found")
    decodability.main(["--data", "data", "--tried", "20"])
    found = record.read_results("decodability")
    assert tuple(found) == PAPER_KINDS
    assert found["bin"]["shortest"] == found["bin"]["longest"] == 64
    assert found["fast"]["decoded"] < 20
    assert tokenizer_findings.decodes().status == AGREES
    assert [kind for kind, row in found.items() if "ordered" in row] == [
        *("bin", "fast", "quest", "acodec")
    ]
    assert found["bin"]["ordered"]["evidence"] == "no prefix decodes, only all 64 tokens do"
    assert found["acodec"]["ordered"]["holds"] is None
    assert "the error falls at" in found["fast"]["ordered"]["evidence"]
    assert "| `oat` | 1920 | 16 | 20 of 20 |" in report.section("decodability")
    assert "| 20 of 20 | no prefix decodes, only all 64 tokens" in report.section("decodability")


def test_actions_that_are_not_finite_do_not_count() -> None:
    class Broken:
        def decode(self, tokens: object) -> torch.Tensor:
            return torch.tensor([float("nan")])

    assert not decodability.decodes(Broken(), torch.zeros(1, 4, dtype=torch.long))  # type: ignore[arg-type]
