"""Backbones against `transformers` itself: prefill, suffixes, padding, missing images, loading."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoImageProcessor

from oatkit.errors import ArtifactError, OatkitError
from oatkit.policies.vlm.backbones.backbone import Backbone, Context
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.backbones.key_value_cache import Growing
from oatkit.policies.vlm.backbones.loading import load_backbone, require_version
from oatkit.policies.vlm.backbones.prompt import Part

SIZES = ((20, 24), (40, 30))
TASKS = ("open the door", "close the other door now")
families = pytest.mark.parametrize("name", list(FAMILIES))


@pytest.fixture(scope="module")
def backbones(checkpoints: dict[str, Path]) -> dict[str, Backbone]:
    return {name: load(path) for name, path in checkpoints.items()}


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
    pads = {"paligemma2": "<image>", "qwen3-vl": "<|image_pad|>", "smolvlm": "<image>"}
    found: int = backbone.processor.tokenizer.convert_tokens_to_ids(pads[backbone.family.name])
    return found


def prompt_ids(backbone: Backbone) -> list[int]:
    """Of the first task with all images."""
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


@families
@torch.no_grad()
def test_prefill_and_suffix_are_those_of_transformers(
    name: str, backbones: dict[str, Backbone]
) -> None:
    backbone = backbones[name]
    context = prefill(backbone, TASKS[:1])
    close(context.hidden[0], reference(backbone))
    suffix = [7, 20, 11, 30]
    rows = backbone.known_rows()[suffix][None]
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    hidden = backbone.run(rows, torch.arange(4), causal, context)
    close(hidden[0], reference(backbone, suffix)[-4:])


@families
@torch.no_grad()
def test_padding_and_batches_change_nothing(name: str, backbones: dict[str, Backbone]) -> None:
    backbone = backbones[name]
    ids = backbone.processor.task_ids(TASKS, has_images=True)
    assert (ids[0] == -1).any()
    left = torch.stack([torch.cat([row[row < 0], row[row >= 0]]) for row in ids])
    right = prefill(backbone, num_states=2)
    suffix = torch.randn(2, 3, backbone.width)
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    wanted = backbone.run(suffix, torch.arange(3), mask, right)
    moved = prefill(backbone, num_states=2, task_ids=left)
    close(backbone.run(suffix, torch.arange(3), mask, moved), wanted)
    for row in range(2):
        only = slice(row, row + 1)
        length = int((ids[row] >= 0).sum())
        alone = prefill(backbone, num_states=2, task_ids=ids[:, :length], rows=only)
        close(backbone.run(suffix[only], torch.arange(3), mask, alone), wanted[only])
        real = [keys[row][:, right.is_seen[row]] for keys, _ in right.pairs]
        for keys, (own, _) in zip(real, alone.pairs, strict=True):
            close(own[0], keys)
        assert int(alone.length) == int(right.length[row])


@families
@torch.no_grad()
def test_a_missing_image_is_as_if_it_were_not_there(
    name: str, backbones: dict[str, Backbone]
) -> None:
    backbone = backbones[name]
    is_seen = torch.tensor([[False, True], [True, True]])
    context = prefill(backbone, num_states=1, is_seen=is_seen)
    task = backbone.processor.task_ids(TASKS[:1], has_images=True)
    pixels = backbone.processor.pixels(images(2)[1][:1])
    states = torch.randn(2, 1, backbone.width, generator=torch.Generator().manual_seed(0))
    without = backbone.prefill(
        backbone.processor.parts(SIZES[1:], 1),
        task,
        [pixels],
        [backbone.processor.grid(SIZES[1])],
        torch.ones(1, 1, dtype=torch.bool),
        states[:1],
    )
    close(context.hidden[0, context.is_seen[0]], without.hidden[0])
    assert int(context.length[0]) == int(without.length[0])


@families
@torch.no_grad()
def test_what_is_fed_matters(name: str, backbones: dict[str, Backbone]) -> None:
    backbone = backbones[name]
    suffix, one = torch.randn(2, 1, backbone.width), torch.ones(1, 1, dtype=torch.bool)

    def last(**changes: Any) -> Tensor:
        context = prefill(backbone, num_states=1, **changes)
        return backbone.run(suffix, torch.arange(1), one, context)

    wanted = last()
    unseen = torch.zeros(2, 2, dtype=torch.bool)
    assert (last(tasks=TASKS[::-1]) - wanted).abs().max() > 1e-3
    assert (last(is_seen=unseen) - wanted).abs().max() > 1e-3


@families
@torch.no_grad()
def test_a_growing_cache_gives_the_same(name: str, backbones: dict[str, Backbone]) -> None:
    """One slot is fed and forgotten, then three are fed and kept one by one."""
    backbone = backbones[name]
    context = prefill(backbone)
    slots = torch.randn(2, 3, backbone.width)
    causal = torch.ones(3, 3, dtype=torch.bool).tril()
    wanted = backbone.run(slots, torch.arange(3), causal, context)
    cache = Growing(context.pairs, 4)
    seen = torch.ones(1, 1, dtype=torch.bool)
    backbone.run_growing(torch.randn(2, 1, backbone.width), torch.arange(1), seen, context, cache)
    for slot in range(3):
        mask = torch.ones(1, slot + 1, dtype=torch.bool)
        found = backbone.run_growing(
            slots[:, slot : slot + 1], torch.tensor([slot]), mask, context, cache
        )
        cache.keep(1)
        close(found[:, 0], wanted[:, slot])


@families
def test_pixels_are_those_of_the_image_processor(
    name: str, backbones: dict[str, Backbone], checkpoints: dict[str, Path]
) -> None:
    backbone = backbones[name]
    whole = AutoImageProcessor.from_pretrained(checkpoints[name], backend="pil")
    image = images(1)[0]
    options = backbone.family.image_options()
    wanted = whole([np.moveaxis(image[0].numpy(), 0, -1)], return_tensors="pt", **options)
    pixels = backbone.processor.pixels(image)
    assert pixels.dtype == torch.uint8
    shape = pixels.shape[: backbone.family.color_axis]
    normal = (pixels.float().reshape(*shape, 3, -1) - backbone.mean) / backbone.std
    close(normal.flatten(), wanted["pixel_values"].float().flatten(), 1e-5)


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


# Loading


def test_another_family_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llava"}))
    with pytest.raises(ArtifactError, match="another family: unknown model type 'llava'"):
        load_backbone(str(tmp_path), BackboneOptions())
    with pytest.raises(ArtifactError, match="none does not exist, and is no id of the Hugging"):
        load_backbone(str(tmp_path / "none"), BackboneOptions())
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer/config.json").write_text("{}")
    with pytest.raises(ArtifactError, match="is a policy, not a backbone: start from it with"):
        load_backbone(str(tmp_path), BackboneOptions())


@pytest.mark.parametrize("version", ["4.57.1", "5.3.0", "6.0.0"])
def test_versions_that_are_not_served_are_named(version: str) -> None:
    with pytest.raises(OatkitError, match=f"transformers {version} is installed, .* 5.4 or later"):
        require_version(version)
    require_version("5.4.0")


def test_sdpa_is_refused_where_it_is_wrong(checkpoints: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="caps its attention scores"):
        load_backbone(str(checkpoints["paligemma2"]), BackboneOptions(attention="sdpa"))
    eager = load(checkpoints["qwen3-vl"], attention="eager")
    usual = load(checkpoints["qwen3-vl"])
    with torch.no_grad():
        close(prefill(eager).hidden, prefill(usual).hidden)


@families
def test_memory_is_saved_without_changing_gradients(
    name: str, checkpoints: dict[str, Path]
) -> None:
    gradients = []
    for save_memory in (False, True):
        backbone = load(checkpoints[name], save_memory=save_memory)
        context = prefill(backbone, num_states=1)
        suffix = torch.ones(2, 3, backbone.width)
        mask = torch.ones(3, 3, dtype=torch.bool).tril()
        hidden = backbone.run(suffix, torch.arange(3), mask, context)
        (hidden.square().mean() + context.pairs[0][0].square().mean()).backward()
        gradients.append({n: p.grad for n, p in backbone.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    assert len(gradients[0]) > 20
    for key, wanted in gradients[0].items():
        close(gradients[1][key], wanted)


@families
def test_parts_are_frozen_and_adapted(name: str, checkpoints: dict[str, Path]) -> None:
    backbone = load_backbone(
        str(checkpoints[name]), BackboneOptions(freeze_vision=True, lora_rank=2, dtype="bfloat16")
    )
    trained = {n for n, p in backbone.named_parameters() if p.requires_grad}
    assert trained
    assert all("lora_" in n for n in trained)
    assert prefill(backbone).hidden.dtype == torch.bfloat16
    frozen = load_backbone(str(checkpoints[name]), BackboneOptions(freeze_language=True))
    left = {n for n, p in frozen.named_parameters() if p.requires_grad}
    assert left
    assert not any(n.startswith(("model.language_model", "model.text_model")) for n in left)


def test_adapters_of_what_is_frozen_are_refused(checkpoints: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="--lora-rank trains what --freeze-language freezes"):
        load_backbone(
            str(checkpoints["qwen3-vl"]), BackboneOptions(freeze_language=True, lora_rank=2)
        )


@families
def test_a_window_bounds_the_context(name: str, backbones: dict[str, Backbone]) -> None:
    backbone = backbones[name]
    has_window = getattr(backbone.text_config, "sliding_window", None) is not None
    assert has_window == (name == "paligemma2")
    assert backbone.max_slots == 4096


def test_positions_are_two_dimensional_where_images_are() -> None:
    from oatkit.policies.vlm.backbones.prompt import lay_out

    parts = [
        Part("image", num_slots=4, image=0, grid=(2, 2)),
        Part("text", (5,), image=0),
        Part("task"),
    ]
    task = torch.tensor([[8, 9], [8, -1]])
    slots = lay_out(parts, task, torch.tensor([[True], [False]]), first=0)
    assert slots.positions[:, 0].tolist() == [
        [0, 0, 0, 0, 2, 3, 4],
        [0, 0, 1, 1, 2, 3, 4],
        [0, 1, 0, 1, 2, 3, 4],
    ]
    assert slots.length.tolist() == [5, 1]
    assert slots.is_real[1].tolist() == [False] * 5 + [True, False]
