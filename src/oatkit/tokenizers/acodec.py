"""`acodec`: a one-shot block of vector-quantized registers, after ActionCodec.

Registers read the actions and not each other; queries read the codes and not each other. Latents
of 512 numbers choose among 2048 vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss, reconstruction_loss
from oatkit.nn.transformer import CrossDecoder, RegisterEncoder, sinusoids
from oatkit.nn.vq import VectorQuantizer
from oatkit.tokenizers.codec import UNWRITTEN_DEFAULT
from oatkit.tokenizers.embodiment_rows import add_row, check_embodiment, embodiment_rows
from oatkit.types import Schedule, Tokens


@dataclass(frozen=True)
class AcodecConfig:
    """A tokenizer whose tokens are generated all at once."""

    horizon: int
    action_dim: int
    kind: Literal["acodec"] = "acodec"
    num_tokens: int = 16
    codebook_size: int = 2048
    latent_dim: int = 512
    commitment: float = 0.25
    """Weight of the loss that keeps latents near their codes."""
    decay: float = 0.99
    """Decay of the moving averages that the codebook is made of."""
    width: int = 256
    num_layers: int = 6
    """Number of layers of the encoder, and of the decoder."""
    num_heads: int = 8
    dropout: float = 0.0
    embodiments: tuple[str, ...] = field(default=(), metadata=UNWRITTEN_DEFAULT)
    """Robots of a mixture that the codec is told apart by a learned row; see `embodiment_rows`."""
    embodiment: str | None = field(default=None, metadata=UNWRITTEN_DEFAULT)
    """Which of them the chunks are of; None for a robot that was not there in training."""

    def __post_init__(self) -> None:
        for name in ("horizon", "action_dim", "num_tokens", "codebook_size", "latent_dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.width % self.num_heads:
            raise ValueError(f"width {self.width} is not divisible by {self.num_heads} heads")
        check_embodiment(self.embodiments, self.embodiment)


class Acodec(nn.Module):
    """The codec. Its codebook follows the latents of the training steps."""

    is_ordered = False
    is_total = True
    is_fixed_length = True
    has_prefixes = False
    positions: Tensor

    def __init__(self, config: AcodecConfig) -> None:
        super().__init__()
        self.config = config
        self.quantizer = VectorQuantizer(
            config.codebook_size,
            config.latent_dim,
            decay=config.decay,
            commitment=config.commitment,
        )
        self.vocab_size = config.codebook_size
        self.max_tokens = config.num_tokens
        self.budgets = (self.max_tokens,)
        self.schedule = Schedule.one_shot(self.max_tokens)

        shape = (config.width, config.num_layers, config.num_heads)
        self.embed = nn.Linear(config.action_dim, config.width)
        self.registers = nn.Parameter(torch.randn(1, config.num_tokens, config.width))
        self.encoder = RegisterEncoder(*shape, mask=None, dropout=config.dropout)
        self.to_latent = nn.Linear(config.width, config.latent_dim)
        self.from_code = nn.Linear(config.latent_dim, config.width)
        self.slots = nn.Parameter(torch.randn(config.num_tokens, config.width))
        self.queries = nn.Parameter(sinusoids(config.horizon, config.width)[None])
        self.decoder = CrossDecoder(*shape, dropout=config.dropout)
        self.head = nn.Linear(config.width, config.action_dim)
        positions = sinusoids(config.horizon, config.width)
        self.register_buffer("positions", positions, persistent=False)
        self.embodiments = embodiment_rows(config)
        self._latents_of_step: list[Tensor] = []

    def encode(self, actions_BTA: Tensor) -> Tokens:
        ids_BK = self.quantizer.ids(self._latents(actions_BTA))
        return Tokens.full(ids_BK)

    def decode(self, tokens: Tokens) -> Tensor:
        return self._reconstruct(self.quantizer.codes(tokens.ids))

    def loss(
        self,
        actions_BTA: Tensor,
        random: SampleRandom,
        weight_BA: Tensor | None = None,
        embodiment_B: Tensor | None = None,
    ) -> TrainingLoss:
        latents_BKD = self._latents(actions_BTA, random, embodiment_B)
        if torch.is_grad_enabled():
            self._latents_of_step.append(latents_BKD.detach())
        codes_BKD, _, commitment = self.quantizer(latents_BKD)
        rebuilt_BTA = self._reconstruct(codes_BKD, random, embodiment_B)
        reconstruction = reconstruction_loss(rebuilt_BTA, actions_BTA, weight_BA)
        parts = {"reconstruction": reconstruction, "commitment": commitment}
        return TrainingLoss(reconstruction + commitment, parts)

    def after_step(self, gather: Callable[[Tensor], Tensor], random: SampleRandom) -> None:
        """Move the codebook towards the latents of all parts of the batch and all processes."""
        if not self._latents_of_step:
            return
        latents_BKD = gather(torch.cat(self._latents_of_step))
        self._latents_of_step.clear()
        self.quantizer.update(latents_BKD, self.quantizer.ids(latents_BKD), random)

    def step_queries(self, embodiment_B: Tensor | None = None) -> Tensor:
        """What asks the decoder for the steps of a chunk, (1 or B, T, D)."""
        if self.embodiments is None:
            return self.queries
        return add_row(self.queries, self.embodiments.decoder, self.config, embodiment_B)

    def _latents(
        self,
        actions_BTA: Tensor,
        random: SampleRandom | None = None,
        embodiment_B: Tensor | None = None,
    ) -> Tensor:
        source_BTD = self.embed(actions_BTA) + self.positions
        if self.embodiments is not None:
            source_BTD = add_row(source_BTD, self.embodiments.encoder, self.config, embodiment_B)
        return self.to_latent(self.encoder(self.registers, source_BTD, random))

    def _reconstruct(
        self,
        codes_BKD: Tensor,
        random: SampleRandom | None = None,
        embodiment_B: Tensor | None = None,
    ) -> Tensor:
        source_BKD = self.from_code(codes_BKD) + self.slots
        return self.head(self.decoder(self.step_queries(embodiment_B), source_BKD, random))
