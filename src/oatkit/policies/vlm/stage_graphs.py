"""Generates action tokens over buffers that stay where they are, as CUDA graphs need it.

Shape letters: B batch, S slot that is seen, G slot of a stage, V action token.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from oatkit.nn.captured_call import CapturedCall, GraphPool, latest
from oatkit.nn.decoder_backend import Generation
from oatkit.nn.flow_graphs import padded_length
from oatkit.nn.weight_versions import weight_versions
from oatkit.policies.vlm.backbones.backbone import Backbone, Context
from oatkit.policies.vlm.backbones.key_value_cache import GrowingCache
from oatkit.policies.vlm.token_head import TokenHead, full_mask


class StageGraphs:
    """Starts generations whose stages are captured calls.

    A stage is captured for every batch size, padded context length and number of slots when it is
    first needed, and again when the weights have changed. Generations of one size share their
    buffers: start the next one when the last one is done.

    Args:
        head: Embeds action tokens and scores them.
        backbone: Runs them.
        pool: Memory of the captured calls.
    """

    def __init__(self, head: TokenHead, backbone: Backbone, pool: GraphPool) -> None:
        self._head, self._backbone, self._pool = head, backbone, pool
        self._versions: list[tuple[int, int]] = []
        self._generations: dict[tuple[int, int, int], _CapturedGeneration] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What a copy gets: graphs cannot be copied, so it captures its own."""
        return {
            **{"_head": self._head, "_backbone": self._backbone, "_pool": self._pool},
            **{"_versions": [], "_generations": {}},
        }

    @torch.inference_mode()
    def start(self, context: Context, num_slots: int) -> Generation:
        """Start a generation; its cache holds the context alone."""
        if torch.is_autocast_enabled(context.is_seen.device.type):  # its casts would be lost
            return self._head.start(self._backbone, context, num_slots)
        versions = weight_versions([self._head.rows, *self._backbone.parameters()])
        if versions != self._versions:
            self._generations, self._versions = {}, versions
        batch_size, num_context = context.is_seen.shape
        size = (batch_size, padded_length(num_context), num_slots)
        head, backbone, pool = self._head, self._backbone, self._pool
        generation = latest(
            self._generations,
            size,
            lambda: _CapturedGeneration(partial(head.stage, backbone), pool, context, *size[1:]),
            pool.num_sizes,
        )
        generation.begin(context)
        return generation


class _CapturedGeneration:
    """One generation after another over the same buffers; see `StageGraphs`."""

    def __init__(
        self,
        stage: Callable[..., Tensor],
        pool: GraphPool,
        like: Context,
        num_context: int,
        num_slots: int,
    ) -> None:
        self._stage, self._pool = stage, pool
        self._num_context = num_context
        self._cache = GrowingCache(like.pairs, num_slots, num_context)
        is_seen_BS = torch.zeros(
            len(like.is_seen), num_context, dtype=torch.bool, device=like.is_seen.device
        )
        self._context = Context((), is_seen_BS, like.length.clone(), like.hidden.new_zeros(0))
        self._stages: dict[tuple[int, int], tuple[tuple[Tensor, ...], CapturedCall]] = {}

    def begin(self, context: Context) -> None:
        """Take in a context; the cache holds it alone."""
        self._cache.restart(context.pairs)
        is_seen_BS = self._context.is_seen
        is_seen_BS.zero_()
        is_seen_BS[:, : context.is_seen.shape[1]] = context.is_seen
        self._context.length.copy_(context.length)

    @torch.inference_mode()
    def feed(
        self, inputs_BG: Tensor, positions_G: Tensor, mask_GS: Tensor | None, num_kept: int
    ) -> Tensor:
        """Logits (B, G, V); only the first `num_kept` slots stay in the cache."""
        num_before = self._cache.length - self._num_context
        if mask_GS is None:
            mask_GS = full_mask(inputs_BG, num_before)
        given = (inputs_BG, positions_G, mask_GS)
        key = (num_before, inputs_BG.shape[1])
        if key not in self._stages:
            own = tuple(part.clone() for part in given)
            # a call that held this object would keep its memory after it is dropped
            run = partial(self._stage, *own, self._context, self._cache)
            self._stages[key] = (own, self._pool.capture(run, inputs_BG.device))
        own, call = self._stages[key]
        for room, part in zip(own, given, strict=True):
            room.copy_(part)
        logits_BGV = call()
        self._cache.keep(num_kept)
        return logits_BGV
