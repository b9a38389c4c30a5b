"""SmolVLM: its prompt, one view of each image, and images that are all black."""

from __future__ import annotations

import torch

from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.smolvlm import SmolVLM
from tests.policies.vlm.backbones.transformers_reference import SIZES, prompt_ids


def test_the_prompt_is_its_chat_template(backbones: dict[str, Backbone]) -> None:
    processor = backbones["smolvlm"].processor
    text = processor.tokenizer.decode(prompt_ids(backbones["smolvlm"]))
    around = "<fake_token_around_image><global-img>" + "<image>" * 4 + "<fake_token_around_image>"
    wanted = f"<|im_start|>User:{around * 2}open the door<end_of_utterance>\nAssistant:"
    assert text == wanted
    assert SmolVLM().task_text("open", has_images=False) == "User: open"


def test_an_image_is_one_view_of_a_fixed_size(backbones: dict[str, Backbone]) -> None:
    processor = backbones["smolvlm"].processor
    for size in (*SIZES, (64, 64)):
        pixels = processor.pixels(torch.zeros(3, 3, *size, dtype=torch.uint8))
        assert pixels.shape == (3, 3, 32, 32)
        assert processor.num_image_slots(size) == 4
        assert processor.grid(size) is None


@torch.no_grad()
def test_a_black_image_is_not_dropped(backbones: dict[str, Backbone]) -> None:
    """Gray is zero after normalization; `transformers` takes such an image for padding."""
    backbone = backbones["smolvlm"]
    found = SmolVLM().encode_images(backbone.model, torch.zeros(2, 3, 32, 32), None)
    assert found.slots.shape == (2, 4, backbone.width)
