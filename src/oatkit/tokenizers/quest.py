"""`quest`: latents in time order behind causal convolutions, after QueST.

    actions (B,T,A) ── causal convolutions, every second step ── causal transformer
        ── latents (B,T/2,D) ── FSQ ── ids ── causal queries that read the codes ── actions

Sizes are the paper's (downsampling 2, the capacity of `oat`); convolution kernels, group norm and
Mish are QueST's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.fsq import FiniteScalarQuantizer
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss, reconstruction_loss
from oatkit.nn.transformer import RegisterEncoder, Transformer, causal_mask, sinusoids
from oatkit.tokenizers.codec import UNWRITTEN_DEFAULT
from oatkit.tokenizers.embodiment_rows import add_row, check_embodiment, embodiment_rows
from oatkit.types import Schedule, Tokens


@dataclass(frozen=True)
class QuestConfig:
    """A tokenizer whose tokens follow time."""

    horizon: int
    """Number of actions in a chunk, an even number."""
    action_dim: int
    kind: Literal["quest"] = "quest"
    levels: tuple[int, ...] = (8, 8, 6, 5)
    """FSQ levels; their product is the vocabulary."""
    reconstruction: Literal["mse", "l1"] = "mse"
    """MSE as in the paper's comparison, L1 as in QueST."""
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
        if self.horizon < 2 or self.horizon % 2:
            raise ValueError(f"quest halves the horizon: {self.horizon} is not even")
        if self.width % self.num_heads or self.width % GROUPS:
            raise ValueError(
                f"width {self.width} is not divisible by {self.num_heads} heads and {GROUPS} groups"
            )
        if self.reconstruction not in ("mse", "l1"):
            raise ValueError(f"reconstruction is {self.reconstruction!r}, expected 'mse' or 'l1'")
        check_embodiment(self.embodiments, self.embodiment)


GROUPS = 8


class CausalConvolution(nn.Module):
    """A convolution over time that sees no later step, (B, D, T) -> (B, D, T / stride)."""

    def __init__(self, width: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.past = kernel - 1
        self.convolution = nn.Conv1d(width, width, kernel, stride)
        self.norm = nn.GroupNorm(GROUPS, width)

    def forward(self, x_BDT: Tensor) -> Tensor:
        return F.mish(self.norm(self.convolution(F.pad(x_BDT, (self.past, 0)))))


class Quest(nn.Module):
    """The codec; see the module's drawing."""

    is_ordered = False
    is_total = True
    is_fixed_length = True
    has_prefixes = False
    positions: Tensor

    def __init__(self, config: QuestConfig) -> None:
        super().__init__()
        self.config = config
        self.quantizer = FiniteScalarQuantizer(config.levels)
        self.vocab_size = self.quantizer.num_codes
        self.max_tokens = config.horizon // 2
        self.budgets = (self.max_tokens,)
        self.schedule = Schedule.tokenwise(self.max_tokens)

        shape = (config.width, config.num_layers, config.num_heads)
        self.embed = nn.Linear(config.action_dim, config.width)
        self.convolutions = nn.Sequential(
            CausalConvolution(config.width, kernel=5, stride=2),
            CausalConvolution(config.width, kernel=3, stride=1),
        )
        self.encoder = Transformer(
            *shape, mask=causal_mask(self.max_tokens), dropout=config.dropout
        )
        self.to_latent = nn.Linear(config.width, len(config.levels))
        self.from_code = nn.Linear(len(config.levels), config.width)
        self.decoder = RegisterEncoder(
            *shape, mask=causal_mask(config.horizon), dropout=config.dropout
        )
        self.head = nn.Linear(config.width, config.action_dim)
        positions = sinusoids(config.horizon, config.width)
        self.register_buffer("positions", positions, persistent=False)
        self.embodiments = embodiment_rows(config)

    def encode(self, actions_BTA: Tensor) -> Tokens:
        ids_BK = self.quantizer(self._latents(actions_BTA))[1]
        return Tokens.full(ids_BK)

    def decode(self, tokens: Tokens) -> Tensor:
        return self._reconstruct(self.quantizer.codes(tokens.ids))

    def code_positions(self) -> Tensor:
        return self.quantizer.positions()

    def loss(
        self,
        actions_BTA: Tensor,
        random: SampleRandom,
        weight_BA: Tensor | None = None,
        embodiment_B: Tensor | None = None,
    ) -> TrainingLoss:
        codes_BKC, _ = self.quantizer(self._latents(actions_BTA, random, embodiment_B))
        rebuilt_BTA = self._reconstruct(codes_BKC, random, embodiment_B)
        reconstruction = reconstruction_loss(
            rebuilt_BTA, actions_BTA, weight_BA, self.config.reconstruction
        )
        return TrainingLoss(reconstruction, {"reconstruction": reconstruction})

    def step_queries(self, embodiment_B: Tensor | None = None) -> Tensor:
        """What asks the decoder for the steps of a chunk, (1 or B, T, D)."""
        if self.embodiments is None:
            return self.positions[None]
        return add_row(self.positions[None], self.embodiments.decoder, self.config, embodiment_B)

    def _latents(
        self,
        actions_BTA: Tensor,
        random: SampleRandom | None = None,
        embodiment_B: Tensor | None = None,
    ) -> Tensor:
        source_BTD = self.embed(actions_BTA)
        if self.embodiments is not None:
            source_BTD = add_row(source_BTD, self.embodiments.encoder, self.config, embodiment_B)
        x_BKD = self.convolutions(source_BTD.transpose(1, 2)).transpose(1, 2)
        return self.to_latent(self.encoder(x_BKD + self.positions[: self.max_tokens], random))

    def _reconstruct(
        self,
        codes_BKC: Tensor,
        random: SampleRandom | None = None,
        embodiment_B: Tensor | None = None,
    ) -> Tensor:
        source_BKD = self.from_code(codes_BKC) + self.positions[: self.max_tokens]
        return self.head(self.decoder(self.step_queries(embodiment_B), source_BKD, random))
