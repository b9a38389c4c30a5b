"""The speed of vision-language policies on a tiny backbone, and the sizes of the published ones."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from benchmarks import record, report, vlm_speed
from oatkit.policies.vlm.backbones.family import ScratchSize


def test_rows_and_ratios(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vlm_speed, "SIZE", ScratchSize())
    monkeypatch.setattr(vlm_speed, "IMAGE_SIZE", 32)
    monkeypatch.setattr(vlm_speed, "REPEATS", 1)
    vlm_speed.main()
    found = record.read_results("vlm_speed")
    for family in ("paligemma2", "qwen3-vl"):
        ms = found[family]["ms"]
        faster = ms["token-wise"] / ms["power of two"]
        assert found[family]["pow2_speedup"] == pytest.approx(faster, rel=0.01)
        assert 0.9 < found[family]["flops_per_parameter_slot"] < 3  # norms are not multiplied
    sizes = {name: row["parameters"]["whole"] for name, row in found["predicted"].items()}
    assert sizes == {"PaliGemma 2 3B": 3_032_242_416, "Qwen3-VL 2B": 2_127_532_032}
    for row in found["predicted"].values():
        chunk = row["A100 80GB"]["chunk_ms"]
        assert row["calls"]["power of two"] == 5
        assert chunk["one-shot"] < chunk["power of two"] < chunk["token-wise"]
    assert found["smolvlm_image"]["as policies read it"] > 0
    page = report.section("vlm_speed")
    assert "| Qwen3-VL 2B | 2.13B |" in page
