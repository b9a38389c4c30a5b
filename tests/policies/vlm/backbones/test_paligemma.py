"""PaliGemma 2: the order of its prompt, its sliding window and its scaled embeddings."""

from __future__ import annotations

import pytest
import torch

from oatkit.policies.vlm.backbones.backbone import Backbone
from tests.policies.vlm.backbones.transformers_reference import SIZES, prefill


def test_images_come_before_the_instruction_and_states_after(
    backbones: dict[str, Backbone],
) -> None:
    processor = backbones["paligemma2"].processor
    parts = processor.parts(SIZES, 2)
    assert [part.kind for part in parts] == ["image", "image", "text", "task", "state"]
    assert parts[2].ids == (processor.tokenizer.bos_token_id,)
    assert [len(part) for part in parts] == [16, 16, 1, 0, 2]
    ids = processor.task_ids(["open the door"], has_images=True)[0]
    assert processor.tokenizer.decode(ids) == "open the door\n"


def test_the_first_position_is_1(backbones: dict[str, Backbone]) -> None:
    context = prefill(backbones["paligemma2"])
    assert context.length.tolist() == (1 + context.is_seen.sum(dim=1)).tolist()


def test_the_sliding_window_bounds_the_context(
    backbones: dict[str, Backbone], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert backbones["paligemma2"].text_config.sliding_window == 4096
    monkeypatch.setattr(backbones["paligemma2"].text_config, "sliding_window", 99)
    assert backbones["paligemma2"].max_slots == 99
    for family in ("qwen3-vl", "smolvlm"):
        assert getattr(backbones[family].text_config, "sliding_window", None) is None


def test_embeddings_are_scaled_with_the_width(backbones: dict[str, Backbone]) -> None:
    backbone = backbones["paligemma2"]
    torch.testing.assert_close(backbone.embed_scale, backbone.width**0.5)
    assert {backbones[family].embed_scale for family in ("qwen3-vl", "smolvlm")} == {1.0}
