"""`light`: a small transformer over token slots that reads encoded observations.

    state, images of each camera (history frames each), task
        ── embed ── context transformer ── keys and values, once per observation ──┐
    token slots (block-wise) ── self-attention, cross-attention, MLP, x layers ────┴── logits

About 5 million parameters by default, image encoders apart.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oatkit.nn.decoder_backend import DecoderBackend, Generation
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.nn.training_loss import TrainingLoss
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

Context = list[tuple[Tensor, Tensor]]
"""Keys and values of every layer."""


class LightNet(nn.Module):
    """Observations and tokens to logits; see the module's drawing.

    Args:
        config: Sizes.
        spec: What is observed.
        vocab_size: Number of ids of the tokenizer; the end symbol, if any, and the mask follow.
        num_tokens: Number of token slots.
        has_end: Whether rows end with a symbol.
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
        self._backend = DecoderBackend(self.decoder)

    @property
    def device(self) -> torch.device:
        return self.slots.device

    @property
    def blocks(self) -> list[nn.Module]:
        """Parts whose weights sharded training (FSDP) gathers one at a time; the others, which are
        small, stay gathered during a step."""
        return [*self.context.mlp, *self.decoder.mlp]

    def encode(self, observations: Observations, random: SampleRandom | None = None) -> Context:
        """Keys and values of every layer; with `random` images are cropped anywhere."""
        context_BSD = encode_observations(self, self.config, observations, random)
        pairs: Context = self.decoder.keys_values(context_BSD)
        return pairs

    def select_rows(self, context: Context, rows_N: Tensor) -> Context:
        """The context of some rows of the batch."""
        return [(keys[rows_N], values[rows_N]) for keys, values in context]

    def start(self, context: Context, batch_size: int, num_slots: int) -> Generation:
        """Generation with an empty cache, which has room for `num_slots` slots."""
        return self._backend.start(context, batch_size, num_slots)

    def shrink_images(self, observations: Observations) -> Observations:
        """The same with images as small as the network reads them, to keep many in memory."""
        return shrink_images(self.config, observations)

    pack = staticmethod(pack)

    def logits(
        self,
        ids_BK: Tensor,
        schedule: Schedule,
        context: Context,
        random: SampleRandom | None = None,
    ) -> Tensor:
        """The packed pass: (B, K, V), slot k predicts token k."""
        packing = pack(schedule, ids_BK.device)
        inputs_BK = packing.inputs(ids_BK, self.mask_id)
        logits_BKV: Tensor = self.decoder(
            inputs_BK, packing.positions, packing.mask, context, random
        )
        return logits_BKV

    def loss(
        self,
        observations: Observations,
        tokens: Tokens,
        schedule: Schedule,
        random: SampleRandom | None = None,
    ) -> TrainingLoss:
        """The training loss of tokens."""
        tokens, schedule = fit_to_schedule(tokens, schedule, self.end_id)
        logits_BKV = self.logits(tokens.ids, schedule, self.encode(observations, random), random)
        token_loss = blockwise_loss(logits_BKV, tokens, schedule, self.end_id, self.smoothing)
        return TrainingLoss(token_loss, {"token_loss": token_loss})
