"""`light`: a small transformer over token slots that reads encoded observations.

    state, images of each camera (history frames each), task
        ── embed ── context transformer ── keys and values, once per observation ──┐
    token slots (block-wise) ── self-attention, cross-attention, MLP, x layers ────┴── logits

About 5 million parameters by default, image encoders apart. With `offset_layers` a further head
corrects what the tokens decode to.

Shape letters: B batch, K token slot, V symbol, S context slot, D width, T step in the chunk, A
action dimension, C dimension of a code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from oatkit.nn.decoder_backend import DecoderBackend, Generation
from oatkit.nn.offset_head import OffsetHead
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.policies.generation.blockwise_loss import blockwise_loss, fit_to_schedule
from oatkit.policies.generation.code_smoothing import CodeSmoothing
from oatkit.policies.generation.packing import pack
from oatkit.policies.light.light_config import LightConfig
from oatkit.policies.light.observation_encoder import (
    encode_observations,
    observation_parts,
    shrink_images,
)
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.types import Schedule, Tokens


@dataclass(frozen=True, eq=False)
class LightContext:
    """What is computed once per observation.

    Attributes:
        pairs: Keys and values of every layer of the decoder.
        encoded: (B, S, D) the encoded observations themselves.
    """

    pairs: list[tuple[Tensor, Tensor]]
    encoded: Tensor


class LightNet(nn.Module):
    """Observations and tokens to logits; see the module's drawing.

    Args:
        config: Sizes.
        spec: What is observed.
        vocab_size: Number of ids of the tokenizer; the end symbol, if any, and the mask follow.
        num_tokens: Number of token slots.
        has_end: Whether rows end with a symbol.
        chunk_shape: Number of steps of a chunk, and of action dimensions.
        budgets: Numbers of tokens that an offset head learns to correct; all by default.
        code_positions_VC: Where the code of each id lies, for `code_smoothing`; None where ids are
            no points.
    """

    def __init__(
        self,
        config: LightConfig,
        spec: ObservationSpec,
        *,
        vocab_size: int,
        num_tokens: int,
        has_end: bool,
        chunk_shape: tuple[int, int],
        budgets: Sequence[int] | None = None,
        code_positions_VC: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.end_id = vocab_size if has_end else None
        num_outputs = vocab_size + has_end
        self.mask_id = num_outputs
        parts = observation_parts(config, spec)
        self.cameras, self.state, self.task, self.slots, self.context = parts
        self.decoder = TokenDecoder(
            num_outputs + 1,
            num_outputs,
            num_tokens,
            width=config.width,
            num_layers=config.num_layers,
            num_heads=config.num_heads,
            dropout=config.dropout,
        )
        self.smoothing: CodeSmoothing | None = None
        if config.code_smoothing and code_positions_VC is not None:
            self.smoothing = CodeSmoothing(code_positions_VC, config.code_smoothing)
        self.offset: OffsetHead | None = None
        if config.offset_layers:
            self.offset = OffsetHead(
                chunk_shape,
                len(self.slots),
                num_tokens,
                trained=budgets,
                width=config.width,
                num_layers=config.offset_layers,
                dropout=config.dropout,
            )
        self._backend = DecoderBackend(self.decoder)

    @property
    def device(self) -> torch.device:
        return self.slots.device

    @property
    def blocks(self) -> list[nn.Module]:
        """Parts whose weights sharded training (FSDP) gathers one at a time; the others, which are
        small, stay gathered during a step."""
        offset = [] if self.offset is None else [*self.offset.layers]
        return [*self.context.mlp, *self.decoder.mlp, *offset]

    def encode(
        self, observations: Observations, random: SampleRandom | None = None
    ) -> LightContext:
        """The context of observations; with `random` images are cropped anywhere."""
        context_BSD = encode_observations(self, self.config, observations, random)
        return LightContext(self.decoder.keys_values(context_BSD), context_BSD)

    def select_rows(self, context: LightContext, rows_N: Tensor) -> LightContext:
        """The context of some rows of the batch."""
        pairs = [(keys[rows_N], values[rows_N]) for keys, values in context.pairs]
        return LightContext(pairs, context.encoded[rows_N])

    def start(self, context: LightContext, batch_size: int, num_slots: int) -> Generation:
        """Generation with an empty cache, which has room for `num_slots` slots."""
        return self._backend.start(context.pairs, batch_size, num_slots)

    def corrected(self, context: LightContext, chunk_BTA: Tensor, lengths_B: Tensor) -> Tensor:
        """Normalized chunks, decoded from so many tokens, with the offset of what is observed."""
        assert self.offset is not None
        chunks_BTA: Tensor = self.offset(chunk_BTA, lengths_B, context.encoded)
        return chunks_BTA

    def shrink_images(self, observations: Observations) -> Observations:
        """The same with images as small as the network reads them, to keep many in memory."""
        return shrink_images(self.config, observations)

    pack = staticmethod(pack)

    def logits(
        self,
        ids_BK: Tensor,
        schedule: Schedule,
        context: LightContext,
        random: SampleRandom | None = None,
    ) -> Tensor:
        """The packed pass: (B, K, V), slot k predicts token k."""
        packing = pack(schedule, ids_BK.device)
        inputs_BK = packing.inputs(ids_BK, self.mask_id)
        logits_BKV: Tensor = self.decoder(
            inputs_BK, packing.positions, packing.mask, context.pairs, random
        )
        return logits_BKV

    def token_loss(
        self,
        context: LightContext,
        tokens: Tokens,
        schedule: Schedule,
        random: SampleRandom | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The training loss of tokens, a scalar, and the logits (B, K, V) it was computed from."""
        tokens, schedule = fit_to_schedule(tokens, schedule, self.end_id)
        logits_BKV = self.logits(tokens.ids, schedule, context, random)
        loss = blockwise_loss(logits_BKV, tokens, schedule, self.end_id, self.smoothing)
        return loss, logits_BKV
