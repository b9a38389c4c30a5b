"""Qwen3-VL: its prompt and its patches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.loading import load_backbone
from oatkit.policies.vlm.backbones.qwen3_vl import Qwen3VL
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
    pixels = [mine.pixels(image)[0].float() for image in images(1)]
    normal = (torch.cat(pixels).view(-1, 3, pixels[0].shape[-1] // 3) - backbone.mean).div(
        backbone.std
    )
    close(normal.flatten(1), wanted["pixel_values"].float(), 1e-5)


def test_slots_follow_the_shape_of_the_image(backbones: dict[str, Backbone]) -> None:
    """An image of twice the height has twice the rows; four patches are one slot."""
    processor = backbones["qwen3-vl"].processor
    assert processor.grid((32, 32)) == (2, 2)
    assert processor.grid((32, 16)) == (2, 1)
    assert processor.pixels(torch.zeros(3, 3, 32, 16, dtype=torch.uint8)).shape[:2] == (3, 2 * 4)


def test_the_state_is_the_end_of_the_question(backbones: dict[str, Backbone]) -> None:
    processor = backbones["qwen3-vl"].processor
    kinds = [part.kind for part in processor.parts([(32, 32)], 1)]
    assert kinds == ["text", "text", "image", "text", "task", "state", "text"]
    *_, answer = processor.parts([], 1)
    assert processor.tokenizer.decode(answer.ids) == "<|im_end|>\n<|im_start|>assistant\n"
    assert Qwen3VL().task_text("open", has_images=False) == "user\nopen"
