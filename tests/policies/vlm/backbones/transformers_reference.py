"""What `transformers` itself makes of a prompt, and the same by a backbone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oatkit.policies.vlm.backbones.backbone import Backbone, Context
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.loading import load_backbone

SIZES = ((20, 24), (40, 30))
TASKS = ("open the door", "close the other door now")


def load(path: Path, **options: Any) -> Backbone:
    backbone = load_backbone(str(path), BackboneOptions(**options))
    torch.manual_seed(3)
    for parameter in backbone.parameters():  # so that nothing is too small to be noticed
        if parameter.ndim > 1 and parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.3)
    return backbone


def images(count: int, sizes: Sequence[tuple[int, int]] = SIZES) -> list[Tensor]:
    rng = np.random.default_rng(0)
    shapes = [(count, 3, *size) for size in sizes]
    return [torch.from_numpy(rng.integers(256, size=s, dtype=np.uint8)) for s in shapes]


def prefill(
    backbone: Backbone,
    tasks: Sequence[str] = TASKS,
    *,
    num_states: int = 0,
    sizes: Sequence[tuple[int, int]] = SIZES,
    is_seen: Tensor | None = None,
    task_ids: Tensor | None = None,
    rows: slice = slice(None),
) -> Context:
    processor = backbone.processor
    found = processor.task_ids(tasks, has_images=bool(sizes)) if task_ids is None else task_ids
    pixels = [processor.pixels(image) for image in images(len(found[rows]), sizes)]
    if rows != slice(None):
        pixels = [processor.pixels(image)[rows] for image in images(len(found), sizes)]
    seen = torch.ones(len(found), len(sizes), dtype=torch.bool) if is_seen is None else is_seen
    states = torch.randn(
        len(found), num_states, backbone.width, generator=torch.Generator().manual_seed(0)
    )
    grids = [processor.grid(size) for size in sizes]
    parts = processor.parts(sizes, num_states)
    return backbone.prefill(parts, found[rows], pixels, grids, seen[rows], states[rows])


def image_id(backbone: Backbone) -> int:
    """What stands for a slot of an image in the prompts of `transformers`."""
    found: int = backbone.model.config.image_token_id
    return found


def prompt_ids(backbone: Backbone) -> list[int]:
    """Ids of the prompt with the first task and all images."""
    processor, ids = backbone.processor, []
    task = processor.task_ids(TASKS[:1], has_images=True)[0].tolist()
    for part in processor.parts(SIZES, 0):
        image = [image_id(backbone)] * len(part)
        ids += {"image": image, "task": task, "text": list(part.ids)}[part.kind]
    return ids


def reference(backbone: Backbone, suffix: Sequence[int] = ()) -> Tensor:
    """Hidden states of one sample by the forward pass of `transformers`, from its own processor."""
    processor, model = backbone.processor, backbone.model
    pad, ids = image_id(backbone), prompt_ids(backbone)
    input_ids = torch.tensor([[*ids, *suffix]])
    made = [np.moveaxis(image[0].numpy(), 0, -1) for image in images(1)]
    options = backbone.family.image_options()
    found = processor.images(made, return_tensors="pt", **options)
    inputs: dict[str, Any] = {"input_ids": input_ids, "pixel_values": found["pixel_values"]}
    if backbone.family.name == "qwen3-vl":
        inputs["image_grid_thw"] = found["image_grid_thw"]
        inputs["mm_token_type_ids"] = (input_ids == pad).int()
    if backbone.family.name == "paligemma2":
        inputs["token_type_ids"] = torch.tensor([[0] * len(ids) + [1] * len(suffix)])
    with torch.no_grad():
        hidden: Tensor = model(**inputs).last_hidden_state[0]
    return hidden


def close(a: Tensor, b: Tensor, atol: float = 2e-4) -> None:
    torch.testing.assert_close(a, b, atol=atol, rtol=1e-4)
