"""SmolVLM: its prompt, one view of each image, and images that are all black."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.processor import Processor
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


def published_images() -> SmolVLMImageProcessorPil:
    """The image processor of SmolVLM2-500M: tiles of 512 pixels, cut from images of 2048."""
    return SmolVLMImageProcessorPil(
        size={"longest_edge": 2048}, max_image_size={"longest_edge": 512}
    )


def photograph(height: int, width: int) -> Tensor:
    """Structure of about 20 pixels, (1, 3, height, width)."""
    coarse = np.random.default_rng(0).integers(256, size=(12, 16, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.moveaxis(np.asarray(image), -1, 0)[None].copy())


def test_no_image_is_larger_on_the_way_than_at_the_end(
    backbones: dict[str, Backbone], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image of 2048 x 2048 on the way takes ten times as long in the processes that read data,
    which then cannot feed a GPU."""
    made = backbones["smolvlm"].processor
    processor = Processor(SmolVLM(), made.tokenizer, published_images(), made.config)
    sizes = []
    resize = SmolVLMImageProcessorPil.resize

    def spied(self: Any, image: Any, size: Any, **kwargs: Any) -> Any:
        found = resize(self, image, size, **kwargs)
        sizes.append(found.shape[-2:])
        return found

    monkeypatch.setattr(SmolVLMImageProcessorPil, "resize", spied)
    assert processor.pixels(photograph(48, 64)).shape == (1, 3, 512, 512)
    assert set(sizes) == {(512, 512)}


@pytest.mark.parametrize("size", [(96, 72), (224, 224), (480, 640)])
def test_pixels_are_those_of_the_whole_way_but_for_resampling(
    size: tuple[int, int], backbones: dict[str, Backbone]
) -> None:
    """No pixel differs by more than 2 of 255 from the view that the processor makes by default."""
    made, images = backbones["smolvlm"].processor, published_images()
    image = photograph(*size)
    found = Processor(SmolVLM(), made.tokenizer, images, made.config).pixels(image)
    options: dict[str, Any] = {"do_image_splitting": False, "do_rescale": False}
    wanted = images(list(image.numpy()), do_normalize=False, return_tensors="pt", **options)
    difference = (found[0].float() - wanted["pixel_values"][0, 0].float()).abs()
    assert difference.max() <= 2
    assert difference.mean() < 0.25
