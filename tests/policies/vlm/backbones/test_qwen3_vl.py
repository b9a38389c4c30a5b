"""Qwen3-VL: its prompt and its patches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.loading import load_backbone
from oatkit.policies.vlm.backbones.qwen3_vl import Qwen3VL, from_patches, to_patches
from tests.policies.vlm.backbones.transformers_reference import (
    TASKS,
    close,
    images,
    prompt_ids,
)


def test_the_prompt_of_qwen_is_that_of_its_processor(checkpoints: dict[str, Path]) -> None:
    """The whole processor exists only where torchvision does."""
    pytest.importorskip("torchvision", reason="the processor of Qwen3-VL needs torchvision")
    from transformers import AutoVideoProcessor, Qwen3VLProcessor

    backbone = load_backbone(str(checkpoints["qwen3-vl"]), BackboneOptions())
    mine = backbone.processor
    whole = Qwen3VLProcessor(mine.images, mine.tokenizer, AutoVideoProcessor())
    text = "<|im_start|>user\n" + "<|vision_start|><|image_pad|><|vision_end|>" * 2
    text += TASKS[0] + "<|im_end|>\n<|im_start|>assistant\n"
    made = [np.moveaxis(image[0].numpy(), 0, -1) for image in images(1)]
    wanted = whole(text=[text], images=made, return_tensors="pt")
    assert wanted["input_ids"][0].tolist() == prompt_ids(backbone)
    normal = [(mine.pixels(image).float() - backbone.mean) / backbone.std for image in images(1)]
    patches = torch.cat([to_patches(image, 8, 2, 2) for image in normal])
    close(patches, wanted["pixel_values"].float(), 1e-5)


def test_patches_are_those_of_the_image_processor(backbones: dict[str, Backbone]) -> None:
    """Images are read as images, and cut into patches on the device of the model."""
    processor = backbones["qwen3-vl"].processor
    images_N3HW = torch.randint(256, (2, 3, 32, 16), dtype=torch.uint8)
    found = processor.images(
        list(images_N3HW.numpy()),
        do_rescale=False,
        do_normalize=False,
        do_resize=False,
        return_tensors="pt",
        input_data_format="channels_first",
    )["pixel_values"]
    torch.testing.assert_close(to_patches(images_N3HW.float(), 8, 2, 2), found, atol=0, rtol=0)
    back = from_patches(found, rows=4, columns=2, size=8, merge=2)
    torch.testing.assert_close(back, images_N3HW.float(), atol=0, rtol=0)


def test_slots_follow_the_shape_of_the_image(backbones: dict[str, Backbone]) -> None:
    """An image of twice the height has twice the rows; four patches are one slot."""
    processor = backbones["qwen3-vl"].processor
    assert processor.grid((32, 32)) == (2, 2)
    assert processor.grid((32, 16)) == (2, 1)
    assert processor.pixels(torch.zeros(3, 3, 32, 16, dtype=torch.uint8)).shape == (3, 3, 32, 16)


def test_the_state_is_the_end_of_the_question(backbones: dict[str, Backbone]) -> None:
    processor = backbones["qwen3-vl"].processor
    kinds = [part.kind for part in processor.parts([(32, 32)], 1)]
    assert kinds == ["text", "text", "image", "text", "task", "state", "text"]
    *_, answer = processor.parts([], 1)
    assert processor.tokenizer.decode(answer.ids) == "<|im_end|>\n<|im_start|>assistant\n"
    assert Qwen3VL().task_text("open", has_images=False) == "user\nopen"
