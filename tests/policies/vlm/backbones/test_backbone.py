"""Backbones against `transformers` itself: prefill, suffixes, padding, missing images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.family import ScratchSize
from tests.policies.vlm.backbones.transformers_reference import (
    SIZES,
    TASKS,
    close,
    images,
    load,
    prefill,
    reference,
)
from tests.policies.vlm.tiny_vlm import families


@families
@torch.no_grad()
def test_prefill_and_suffix_are_those_of_transformers(
    family: str, backbones: dict[str, Backbone]
) -> None:
    backbone = backbones[family]
    context = prefill(backbone, TASKS[:1])
    close(context.hidden[0], reference(backbone))
    suffix = [7, 20, 11, 30]
    rows = backbone.text_embeddings()[suffix][None]
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    hidden = backbone.run(rows, torch.arange(4), causal, context)
    close(hidden[0], reference(backbone, suffix)[-4:])


@families
@torch.no_grad()
def test_padding_and_batches_change_nothing(family: str, backbones: dict[str, Backbone]) -> None:
    backbone = backbones[family]
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
    family: str, backbones: dict[str, Backbone]
) -> None:
    backbone = backbones[family]
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
def test_what_is_fed_matters(family: str, backbones: dict[str, Backbone]) -> None:
    backbone = backbones[family]
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
def test_images_of_one_shape_share_a_pass_of_the_vision_tower(
    family: str, backbones: dict[str, Backbone], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass for all cameras and frames keeps a GPU busy; the features are those of passes of
    their own, deepstack included. Sizes are mixed, so that order matters."""
    backbone = backbones[family]
    sizes = (SIZES[0], SIZES[1], SIZES[0], SIZES[0])
    pixels = [backbone.processor.pixels(image) for image in images(2, sizes)]
    grids = [backbone.processor.grid(size) for size in sizes]
    alone = [backbone._encode_images([p], [g])[0] for p, g in zip(pixels, grids, strict=True)]
    encode, passes = type(backbone.family).encode_images, []

    def spied(self: Any, model: Any, pixels_N: Tensor, grid: Any) -> Any:
        passes.append(len(pixels_N))
        return encode(self, model, pixels_N, grid)

    monkeypatch.setattr(type(backbone.family), "encode_images", spied)
    together = backbone._encode_images(pixels, grids)
    assert passes == ([6, 2] if family == "qwen3-vl" else [8])
    for found, wanted in zip(together, alone, strict=True):
        close(found.slots, wanted.slots)
        assert len(found.deepstack) == (family == "qwen3-vl")
        for level, wanted_level in zip(found.deepstack, wanted.deepstack, strict=True):
            close(level, wanted_level)


@families
def test_memory_is_saved_without_changing_gradients(
    family: str, checkpoints: dict[str, Path]
) -> None:
    gradients = []
    for save_memory in (False, True):
        backbone = load(checkpoints[family], save_memory=save_memory)
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
def test_sizes_are_those_of_the_checkpoint(family: str, backbones: dict[str, Backbone]) -> None:
    backbone, size = backbones[family], ScratchSize()
    assert backbone.max_slots == 4096
    assert (backbone.width, backbone.num_layers) == (size.width, size.num_layers)
    assert (backbone.num_heads, backbone.num_kv_heads) == (size.num_heads, size.num_kv_heads)
    assert backbone.head_dim == size.head_dim
    assert len(backbone.layers) == size.num_layers + size.vision_layers
    context = prefill(backbone)
    assert len(context.pairs) == size.num_layers
    assert context.pairs[0][0].shape[1::2] == (size.num_kv_heads, size.head_dim)
    cos, sin = backbone.rotary(context, 3)
    assert cos.shape == (2, 3, size.head_dim)
    close(cos.square() + sin.square(), torch.ones_like(cos))


@families
@torch.no_grad()
def test_rows_of_a_context_are_contexts(family: str, backbones: dict[str, Backbone]) -> None:
    backbone = backbones[family]
    context = prefill(backbone)
    suffix, one = torch.randn(2, 1, backbone.width), torch.ones(1, 1, dtype=torch.bool)
    wanted = backbone.run(suffix, torch.arange(1), one, context)
    rows = torch.tensor([1, 1, 0])
    found = backbone.run(suffix[rows], torch.arange(1), one, context.rows(rows))
    close(found, wanted[rows])


@families
def test_only_what_makes_keys_and_values_is_left_of_the_last_layer(
    family: str, checkpoints: dict[str, Path]
) -> None:
    """All that is still trained gets a gradient from keys and values, and what is frozen none."""
    backbone = load(checkpoints[family])
    everything = {name for name, _ in backbone.named_parameters()}
    backbone.freeze_after_keys_and_values()
    trained = {name for name, p in backbone.named_parameters() if p.requires_grad}
    backbone.requires_grad_(True)
    keys_and_values = [part for pair in prefill(backbone).pairs for part in pair]
    torch.stack([part.square().mean() for part in keys_and_values]).sum().backward()
    taught = {name for name, p in backbone.named_parameters() if p.grad is not None}
    assert taught == trained
    assert everything - trained
