"""How many calls policies took, beside what the paper lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import call_findings, record
from benchmarks import claim_findings as claims


def test_calls_are_those_that_the_paper_lists(results: Path) -> None:
    def row(calls: dict[int, float], tokens: float = 0.0) -> dict[str, Any]:
        budgets = [
            {"budget": budget, "calls": number, "tokens": tokens or budget}
            for budget, number in calls.items()
        ]
        return {"budgets": budgets, "protocol": {"horizon": 32}}

    def status() -> str:
        record.write_result("policy_table", seed=0, settings={}, results={"state": rows})
        return call_findings.calls_of_schemes().status

    rows = {"bin": row({128: 32.0}), "oat-pow2": row({1: 1.0, 8: 4.0})}
    assert status() == f"{claims.MISSING} (no policy on `quest` and `acodec` and `oat` and `fast`)"
    rows |= {"quest": row({16: 16.0}), "acodec": row({8: 1.0}), "oat": row({8: 8.0})}
    assert status() == f"{claims.MISSING} (no policy on `fast`)"
    rows["fast"] = row({128: 21.0}, tokens=20.5)
    assert status() == claims.AGREES
    rows["fast"] = row({128: 21.0}, tokens=17.5)
    assert status() == claims.DIFFERS
    del rows["fast"]
    rows["oat-pow2"] = row({1: 1.0, 8: 5.0})
    assert status() == claims.DIFFERS, "one that is not as listed is enough"


def test_calls_of_kinds_that_only_control_has(results: Path) -> None:
    budget = {"budget": 8, "calls": 1.0, "tokens": 8.0}
    cell = {"row": "acodec", "seed": 0, "rule": "8", "budgets": [budget], "kind": "acodec"}
    cells = {"cells": {"acodec/0/8": cell}}
    record.write_result("control", seed=0, settings={"horizon": 32}, results=cells)
    found = call_findings.calls_of_schemes()
    row = "(cell `acodec/0/8` of `control`)"
    assert found.ours == f"calls for so many tokens: `acodec` 1 for 8 {row}"
    assert found.source == "control"
    assert "`acodec`" not in found.status
    budget["calls"] = 2.0
    record.write_result("control", seed=0, settings={"horizon": 32}, results=cells)
    assert call_findings.calls_of_schemes().status == claims.DIFFERS


def test_calls_are_for_the_tokens_that_were_generated(results: Path) -> None:
    """Not for the largest number of tokens that a chunk may have."""
    budget = {"budget": 128, "calls": 43.17, "tokens": 42.17}
    cell = {"row": "fast, relaxed", "seed": 0, "rule": "8", "budgets": [budget], "kind": "fast"}
    cells = {"cells": {"fast, relaxed/0/8": cell}}
    record.write_result("control", seed=0, settings={"horizon": 32}, results=cells)
    found = call_findings.calls_of_schemes()
    row = "(cell `fast, relaxed/0/8` of `control`)"
    assert found.ours == f"calls for so many tokens: `fast` 43.2 for 42.2 and their end {row}"


def test_the_policy_whose_16_tokens_were_counted_is_named(results: Path) -> None:
    assert call_findings.calls_of_16_tokens() == claims.NOT_MEASURED
    ways = {"16 tokens, token-wise": {"calls": 16}, "16 tokens, powers of two": {"calls": 5}}
    found = {"parameters": 5504896, "schedules": ways}
    record.write_result("policy_latency", seed=0, settings={}, results=found)
    one = call_findings.calls_of_16_tokens()
    assert one.status == claims.AGREES
    assert one.ours.startswith("16 and 5 calls of a light policy of 5.5M parameters; of vision-l")
    ways["16 tokens, powers of two"]["calls"] = 6
    record.write_result("policy_latency", seed=0, settings={}, results=found)
    assert call_findings.calls_of_16_tokens().status == claims.DIFFERS
