"""PaliGemma 2: the order of its prompt, its sliding window and its scaled embeddings."""

from __future__ import annotations

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


def test_the_sliding_window_bounds_the_context(backbones: dict[str, Backbone]) -> None:
    """It is as long as the positions by default."""
    bounded = {
        family: getattr(backbone.text_config, "sliding_window", None)
        for family, backbone in backbones.items()
    }
    assert bounded.pop("paligemma2") == 4096
    assert set(bounded.values()) == {None}


def test_embeddings_are_scaled_with_the_width(backbones: dict[str, Backbone]) -> None:
    backbone = backbones["paligemma2"]
    torch.testing.assert_close(backbone.embed_scale, backbone.width**0.5)
    others = {b.embed_scale for family, b in backbones.items() if family != "paligemma2"}
    assert others == {1.0}
