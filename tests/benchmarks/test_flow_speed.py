"""The speed of the Euler steps on a tiny backbone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from benchmarks import flow_speed, record, report, vlm_speed
from oatkit.nn.flow_acting import integrate_expert
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import write_scratch


def test_every_way_is_timed(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vlm_speed, "SIZE", ScratchSize())
    monkeypatch.setattr(vlm_speed, "IMAGE_SIZE", 32)
    monkeypatch.setattr(flow_speed, "ROUNDS", 1)
    flow_speed.main()
    rows = record.read_results("flow_speed")
    assert list(rows) == list(flow_speed.FAMILIES)
    for found in rows.values():
        assert len(found["ms"]) == 6
        assert min(found["ms"].values()) > 0
    assert "| bfloat16: prepared once |" in report.section("flow_speed")


def test_every_way_gives_the_same_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of ways that compute something else could not be compared."""
    monkeypatch.setattr(vlm_speed, "IMAGE_SIZE", 32)
    checkpoint = write_scratch("smolvlm", tmp_path, ScratchSize(), [vlm_speed.TEXT])
    policy = vlm_speed.make_policy(checkpoint, "vlm-tc")
    expert = policy.net.expert
    assert expert is not None
    with torch.inference_mode():
        memory = policy.net.memory(policy.net.encode(vlm_speed.observe(policy)))
        given = (torch.randn(1, vlm_speed.HORIZON, vlm_speed.ACTION_DIM), memory, 3)
        wanted = flow_speed.step_by_step(expert, *given)
        torch.testing.assert_close(integrate_expert(expert, *given), wanted, rtol=1e-4, atol=1e-5)
