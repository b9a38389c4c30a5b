"""The latency benchmark on tiny networks: what it times is what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks import policy_latency, record, report
from oatkit.types import Schedule


def test_rows_and_ratios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "RESULTS", tmp_path / "stored")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(policy_latency, "matmul_gflops", lambda: 1.0)
    policy_latency.main(["--preset", "tiny", "--repeats", "3"])
    found = record.read_results("policy_latency")
    rows = found["schedules"]
    assert [row["calls"] for row in rows.values()] == [16, 5, 1, 8]
    for row in rows.values():
        ratio = row["generate_ms"] / row["calls"] / found["bare_ms"]
        assert row["call_over_bare"] == pytest.approx(ratio, rel=0.1)
    assert "| 16 tokens, one-shot | 1 |" in report.section("policy_latency")


def test_a_bare_pass_reads_every_weight_of_a_call(tmp_path: Path) -> None:
    dataset = policy_latency.made_up_data(tmp_path)
    policy = policy_latency.make_policy("tiny", Schedule.tokenwise(8), dataset)
    decoder = policy.net.decoder
    read = {id(p) for p in decoder.parameters() if p.ndim == 2}
    read -= {id(p) for p in decoder.keys_values.parameters()} | {id(decoder.positions)}
    weights = policy_latency.matrices(decoder)
    assert len(weights) == len(read)
    assert weights[-1].shape == (policy.tokenizer.vocab_size, 32)
    passes = policy_latency.bare_passes(weights)
    by_rows, by_columns = passes["bare, by rows"](), passes["bare, by columns"]()
    for row, column in zip(by_rows, by_columns, strict=True):
        torch.testing.assert_close(row, column[0])
