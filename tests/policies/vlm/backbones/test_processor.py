"""Text to ids and images to pixels, as the checkpoint's own processors have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoImageProcessor

from oatkit.data import Dataset
from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.processor import MAX_TASK_TOKENS, action_token_names
from tests.policies.vlm import tiny_vlm
from tests.policies.vlm.backbones.transformers_reference import SIZES, TASKS, close, images
from tests.policies.vlm.tiny_vlm import families


@families
def test_pixels_are_those_of_the_image_processor(
    family: str, backbones: dict[str, Backbone], checkpoints: dict[str, Path]
) -> None:
    backbone = backbones[family]
    whole = AutoImageProcessor.from_pretrained(checkpoints[family], backend="pil")
    image = images(1)[0]
    options = backbone.family.image_options()
    wanted = whole([np.moveaxis(image[0].numpy(), 0, -1)], return_tensors="pt", **options)
    pixels = backbone.processor.pixels(image)
    assert pixels.dtype == torch.uint8
    normal = (pixels.float() - backbone.mean) / backbone.std
    close(normal, backbone.family.resized_images(whole, wanted).float(), 1e-5)


@families
def test_names_of_special_tokens_are_text(
    family: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """An action token would have no row in the backbone, an image token no image."""
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints[family], "oat-pow2", dataset)
    text = policy.net.backbone.processor
    special = set(text.tokenizer.all_special_ids)
    for task in ("<|action_0|>", "open <|action_mask|>", "<image>", "<|image_pad|><|im_end|>"):
        ids = set(text.task_ids([task], has_images=True).flatten().tolist())
        assert not ids & special
        assert max(ids) < text.num_text_tokens
        observation = tiny_vlm.batch(policy, dataset, 1) | {"task": [task]}
        assert np.isfinite(policy.predict_action_chunk(observation).chunk).all()


@families
def test_the_vocabulary_grows(family: str, checkpoints: dict[str, Path], dataset: Dataset) -> None:
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints[family], "fast", dataset)
    text, size = policy.net.backbone.processor.tokenizer, policy.tokenizer.vocab_size
    names = [f"<|action_{i}|>" for i in range(size)] + ["<|action_end|>", "<|action_mask|>"]
    ids = text.convert_tokens_to_ids(names)
    assert ids == list(range(ids[0], ids[0] + size + 2))
    assert text(names[3] + names[-1], add_special_tokens=False)["input_ids"] == [ids[3], ids[-1]]
    assert policy.net.tokens.rows.shape == (size + 2, policy.net.backbone.width)
    with pytest.raises(ValueError, match=r"vocabulary already has '<\|action_0\|>'"):
        policy.net.backbone.processor.add_action_tokens(4, has_end=False)


@families
def test_instructions_are_padded_and_bounded(family: str, backbones: dict[str, Backbone]) -> None:
    processor = backbones[family].processor
    short, long = processor.task_ids(TASKS, has_images=True)
    alone = processor.task_ids(TASKS[:1], has_images=True)[0]
    assert short.tolist() == [*alone.tolist(), *[-1] * (len(long) - len(alone))]
    text = processor.tokenizer.decode(long)
    assert TASKS[1] in text
    words = "door " * (MAX_TASK_TOKENS + 9)
    message = rf"has \d+ tokens, expected at most {MAX_TASK_TOKENS}: it begins 'door door"
    with pytest.raises(ValueError, match=message):
        processor.task_ids(["open", words], has_images=True)


@families
def test_an_image_has_its_slots_and_its_grid(family: str, backbones: dict[str, Backbone]) -> None:
    processor = backbones[family].processor
    for size in SIZES:
        (part,) = [part for part in processor.parts([size], 0) if part.kind == "image"]
        assert len(part) == processor.num_image_slots(size)
        assert part.grid == processor.grid(size)
        assert part.grid is None or part.grid[0] * part.grid[1] == len(part)


def test_action_tokens_are_named() -> None:
    assert action_token_names(2, has_end=False) == [
        *("<|action_0|>", "<|action_1|>", "<|action_mask|>"),
    ]
    assert action_token_names(1, has_end=True) == [
        *("<|action_0|>", "<|action_end|>", "<|action_mask|>"),
    ]


def test_statistics_are_of_whole_numbers(backbones: dict[str, Backbone]) -> None:
    """Black is -1 and white is 1 where mean and deviation are a half."""
    mean, std = backbones["qwen3-vl"].processor.image_statistics()
    ends = (torch.tensor([[[0.0, 255.0]]]) - mean) / std
    close(ends, torch.tensor([[[-1.0, 1.0]]] * 3))
