"""`oatkit vlm check`: what holds is said, and what does not is the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit import cli
from oatkit.storage.records import read_record
from oatkit.types import BackboneCheck

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

SMALL = ("--image-size", "32", "--expert-width", "16", "--batch-size", "2")


@pytest.mark.parametrize("placed", [(), ("--device-map", "cpu")], ids=["device", "device-map"])
def test_a_backbone_is_written_and_checked(
    placed: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "b")
    assert cli.main(["vlm", "scratch", "--family", "qwen3-vl", "--out", folder]) == 0
    assert f"next: oatkit vlm check {folder}" in capsys.readouterr().out
    assert cli.main(["vlm", "scratch", "--family", "qwen3-vl", "--out", folder]) == 2
    assert "holds a checkpoint already" in capsys.readouterr().err
    record = tmp_path / "c.json"
    flags = (
        "--image-size",
        "32",
        "--expert-width",
        "16",
        "--batch-size",
        "2",
        "--out",
        str(record),
    )
    assert cli.main(["vlm", "check", folder, *flags, *placed]) == 0
    found = read_record(record, BackboneCheck)
    assert len(found.invariants) == 15
    assert all(invariant.holds for invariant in found.invariants)
    assert min(found.train_s, found.prefill_ms, found.suffix_ms, found.train_bytes) > 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "the flow loss gives the VLM no gradient" in printed
    assert "a training step of vlm-tc with 2 samples in float32, AdamW included" in printed
    assert "at most in this process, all that it did before included" in printed


def test_a_broken_invariant_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from oatkit.policies.vlm.backbones.backbone import Context

    folder = str(tmp_path / "b")
    assert cli.main(["vlm", "scratch", "--family", "smolvlm", "--out", folder]) == 0
    monkeypatch.setattr(Context, "detached_pairs", lambda self: self.pairs)
    assert (
        cli.main(
            [
                "vlm",
                "check",
                folder,
                "--image-size",
                "32",
                "--expert-width",
                "16",
                "--batch-size",
                "2",
            ]
        )
        == 1
    )
    assert "BROKEN  the flow loss gives the VLM no gradient" in capsys.readouterr().out
