"""The speed of reading video, on a tiny dataset."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

import oatkit
from benchmarks import feeding
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.paligemma import PaliGemma2
from oatkit.policies.vlm.backbones.processor import Processor


def test_every_way_of_reading_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FRAMES", 20), ("ENCODED_EPISODES", 1), ("EPISODES", 2)):
        monkeypatch.setattr(feeding, name, value)
    monkeypatch.setattr(feeding, "_version_of", lambda _: None)
    feeding.write_dataset(tmp_path, "h264", (100, 120))
    dataset = oatkit.open_dataset(tmp_path / "data")
    assert (len(dataset), dataset.num_frames, list(dataset.cameras)) == (2, 40, ["front", "wrist"])
    family = PaliGemma2()
    config, text, images = family.scratch(ScratchSize(), ["walk"])
    processor = Processor(family, text, images, config)
    for policy in feeding.POLICIES:
        rates = feeding.measure(dataset, policy, 2, processor, 0)
        assert list(rates) == ["single", "runs"]
        assert min(rates.values()) > 0
