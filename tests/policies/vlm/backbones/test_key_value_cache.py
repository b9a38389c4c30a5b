"""Caches of keys and values: what a layer reads, what stays."""

from __future__ import annotations

import torch
from torch import Tensor

from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.key_value_cache import GrowingCache, RecordingCache
from tests.policies.vlm.backbones.transformers_reference import (
    close,
    prefill,
)
from tests.policies.vlm.tiny_vlm import families


@families
@torch.no_grad()
def test_a_growing_cache_gives_the_same(family: str, backbones: dict[str, Backbone]) -> None:
    """One slot is fed and forgotten, then three are fed and kept one by one."""
    backbone = backbones[family]
    context = prefill(backbone)
    slots = torch.randn(2, 3, backbone.width)
    causal = torch.ones(3, 3, dtype=torch.bool).tril()
    wanted = backbone.run(slots, torch.arange(3), causal, context)
    cache = GrowingCache(context.pairs, 4)
    seen = torch.ones(1, 1, dtype=torch.bool)
    backbone.run_cached(torch.randn(2, 1, backbone.width), torch.arange(1), seen, context, cache)
    for slot in range(3):
        mask = torch.ones(1, slot + 1, dtype=torch.bool)
        found = backbone.run_cached(
            slots[:, slot : slot + 1], torch.tensor([slot]), mask, context, cache
        )
        cache.keep(1)
        close(found[:, 0], wanted[:, slot])


def pairs(num_slots: int, num_layers: int = 2) -> list[tuple[Tensor, Tensor]]:
    shape = (1, 2, num_slots, 3)
    return [(torch.randn(shape), torch.randn(shape)) for _ in range(num_layers)]


def test_new_slots_are_recorded_and_read_behind_the_context() -> None:
    before, new = pairs(4), pairs(2)
    cache = RecordingCache(before)
    for layer in (1, 0):
        keys, values = cache.update(*new[layer], layer, {"cache_position": None})
        assert torch.equal(keys, torch.cat([before[layer][0], new[layer][0]], dim=2))
        assert torch.equal(values, torch.cat([before[layer][1], new[layer][1]], dim=2))
    assert all(torch.equal(a, b) for a, b in zip(cache.pairs[1], new[1], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(cache.pairs[0], new[0], strict=True))
    alone = RecordingCache()
    assert alone.update(*new[0], 0)[0] is new[0][0]


def test_a_layer_that_is_computed_again_does_not_replace_its_first_result() -> None:
    cache, first, again = RecordingCache(), pairs(2, 1)[0], pairs(2, 1)[0]
    cache.update(*first, 0)
    assert cache.update(*again, 0)[0] is again[0]
    assert cache.pairs[0][0] is first[0]


def test_slots_that_are_not_kept_are_written_over() -> None:
    before, dropped, new = pairs(3), pairs(2), pairs(1)
    cache = GrowingCache(before, 2)
    for layer in range(2):
        keys, _ = cache.update(*dropped[layer], layer)
        assert torch.equal(keys[:, :, 3:], dropped[layer][0])
    cache.keep(1)
    assert cache.length == 4
    for layer in range(2):
        keys, values = cache.update(*new[layer], layer)
        wanted = [before[layer], [part[:, :, :1] for part in dropped[layer]], new[layer]]
        assert torch.equal(keys, torch.cat([part[0] for part in wanted], dim=2))
        assert torch.equal(values, torch.cat([part[1] for part in wanted], dim=2))
