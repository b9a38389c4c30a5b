"""`oat` and `oat-pow2`: the paper's ordered action tokenizer.

    actions (B,T,A) ── embed ──────────────┐ keys, values
    registers (1,K,D) ── RegisterEncoder ──┴── latents ── FSQ ── ids (B,K)
                                                            │
    slots past the budget take learned masks ───────────────┤ keys, values
    action-position queries (1,T,D) ── CrossDecoder ────────┴── head ── actions (B,T,A)

The register mask, the budgets of nested dropout and the schedule are independent settings.

Shape letters: B chunk, T step in the chunk, A action dimension, K register or token slot, D width,
C dimension of a code, N chunk and sampled budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.fsq import FiniteScalarQuantizer
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.nn.transformer import CrossDecoder, RegisterEncoder, sinusoids
from oatkit.tokenizers.codec import UNWRITTEN_DEFAULT, doubling
from oatkit.tokenizers.embodiment_rows import add_row, check_embodiment, embodiment_rows
from oatkit.types import Schedule, Tokens


@dataclass(frozen=True)
class OatConfig:
    """An ordered action tokenizer."""

    horizon: int
    """Number of actions in a chunk, H_a."""
    action_dim: int
    """Number of dimensions of an action, D_a."""
    kind: Literal["oat", "oat-pow2"] = "oat-pow2"
    """`oat`: registers form a causal chain. `oat-pow2`: registers form groups of
    doubling size and do not attend to each other within a group."""
    num_tokens: int = 16
    """Number of registers, H_l."""
    levels: tuple[int, ...] = (8, 8, 6, 5)
    """FSQ levels; their product is the vocabulary."""
    budgets: tuple[int, ...] | None = None
    """Prefix lengths that are trained; 1, 2, 4, ... up to `num_tokens` by default."""
    groups: tuple[int, ...] | None = None
    """Where each group of registers ends; singletons for `oat`, doubling for `oat-pow2`."""
    nested_dropout: bool = True
    """Off: only full sequences are trained (the paper's ordering ablation)."""
    refine: int = 0
    """Number of extra tokens fitted without gradients to the residual of the learned tokens; see
    `refined.py`."""
    budgets_per_chunk: int = 1
    """How many sampled budgets are decoded for each encoded chunk of a training batch."""
    early_weight: float = field(default=1.0, metadata=UNWRITTEN_DEFAULT)
    """How many times as much the first action of a chunk counts in training as the last; weights
    fall geometrically in between. A robot executes the first part of a chunk, then looks again."""
    overlap_weight: float = field(default=0.0, metadata=UNWRITTEN_DEFAULT)
    """How much it costs in training that chunks one step apart have different codes."""
    width: int = 256
    num_layers: int = 6
    """Number of layers of the encoder."""
    decoder_layers: int | None = None
    """Number of layers of the decoder; that of the encoder by default."""
    num_heads: int = 8
    dropout: float = 0.0
    embodiments: tuple[str, ...] = field(default=(), metadata=UNWRITTEN_DEFAULT)
    """Robots of a mixture that the codec is told apart by a learned row; see `embodiment_rows`."""
    embodiment: str | None = field(default=None, metadata=UNWRITTEN_DEFAULT)
    """Which of them the chunks are of; None for a robot that was not there in training."""

    def __post_init__(self) -> None:
        if self.kind not in ("oat", "oat-pow2"):
            raise ValueError(f"kind is {self.kind!r}, expected 'oat' or 'oat-pow2'")
        for name in ("horizon", "action_dim", "num_tokens", "num_layers", "budgets_per_chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if not 1 <= self.early_weight < math.inf:
            raise ValueError(f"early_weight is {self.early_weight}, expected 1 or more")
        if not 0 <= self.overlap_weight < math.inf:
            raise ValueError(f"overlap_weight is {self.overlap_weight}, expected 0 or more")
        if self.refine < 0:
            raise ValueError(f"refine is {self.refine}, expected 0 or more")
        if self.width % self.num_heads:
            raise ValueError(f"width {self.width} is not divisible by {self.num_heads} heads")
        for name in ("budgets", "groups"):
            ends = getattr(self, f"resolved_{name}")
            if ends[-1] != self.num_tokens or sorted(set(ends)) != list(ends) or ends[0] < 1:
                raise ValueError(
                    f"{name} are {list(ends)}, expected increasing numbers that end at "
                    f"{self.num_tokens} tokens"
                )
        self.schedule  # noqa: B018  refuses groups that shrink
        check_embodiment(self.embodiments, self.embodiment)
        if self.embodiments and self.refine:
            raise ValueError("refined tokens are not told the embodiment: leave one of both out")

    @property
    def resolved_budgets(self) -> tuple[int, ...]:
        """Prefix lengths that are trained, with the default filled in."""
        if not self.nested_dropout:
            return (self.num_tokens,)
        return self.budgets or doubling(self.num_tokens)

    @property
    def resolved_groups(self) -> tuple[int, ...]:
        """Where each group of registers ends, with the default filled in."""
        if self.groups is not None:
            return self.groups
        if self.kind == "oat":
            return tuple(range(1, self.num_tokens + 1))
        return Schedule.pow2(self.num_tokens).endpoints

    @property
    def schedule(self) -> Schedule:
        """How a policy is meant to generate the tokens: group by group."""
        return Schedule(self.resolved_groups)


def register_mask(groups: tuple[int, ...]) -> Tensor:
    """(K, K) bool: a register (row) sees earlier groups and itself, not its group's peers.

    groups 1 2 3 4 (causal)      groups 1 2 4 (power of two)
    1 . . .                      1 . . .
    1 1 . .                      1 1 . .
    1 1 1 .                      1 1 1 .
    1 1 1 1                      1 1 . 1
    """
    group_K = torch.bucketize(torch.arange(groups[-1]), torch.tensor(groups), right=True)
    is_earlier = group_K[:, None] > group_K[None, :]
    return is_earlier | torch.eye(groups[-1], dtype=torch.bool)


def early_weights(horizon: int, early_weight: float) -> Tensor:
    """(T,): weights of the steps of a chunk, of mean 1; the first is so many times the last."""
    weights_T = early_weight ** -torch.linspace(0, 1, horizon)
    return weights_T / weights_T.mean()


class Oat(nn.Module):
    """The codec of both kinds; see the module's drawing."""

    is_ordered = True
    is_total = True
    is_fixed_length = True
    has_prefixes = True
    positions: Tensor
    step_weights: Tensor

    def __init__(self, config: OatConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.quantizer = FiniteScalarQuantizer(config.levels)
        self.vocab_size = self.quantizer.num_codes
        self.max_tokens = config.num_tokens
        self.budgets = config.resolved_budgets
        self.schedule = config.schedule

        self.embed = nn.Linear(config.action_dim, width)
        self.registers = nn.Parameter(torch.randn(1, config.num_tokens, width))
        mask = register_mask(config.resolved_groups)
        self.encoder = RegisterEncoder(
            width, config.num_layers, config.num_heads, mask=mask, dropout=config.dropout
        )
        self.to_latent = nn.Linear(width, len(config.levels))

        self.from_code = nn.Linear(len(config.levels), width)
        # added to the codes within the budget; the masks replace those past it
        self.slots = nn.Parameter(torch.randn(config.num_tokens, width))
        self.masks = nn.Parameter(torch.randn(config.num_tokens, width))
        self.queries = nn.Parameter(sinusoids(config.horizon, width)[None])
        layers = config.decoder_layers or config.num_layers
        self.decoder = CrossDecoder(width, layers, config.num_heads, dropout=config.dropout)
        self.head = nn.Linear(width, config.action_dim)
        self.register_buffer("positions", sinusoids(config.horizon, width), persistent=False)
        self.embodiments = embodiment_rows(config)
        weights_T1 = early_weights(config.horizon, config.early_weight)[:, None]
        self.register_buffer("step_weights", weights_T1, persistent=False)

    def encode(self, actions_BTA: Tensor) -> Tokens:
        ids_BK = self.quantizer(self._latents(actions_BTA))[1]
        return Tokens.full(ids_BK)

    def decode(self, tokens: Tokens) -> Tensor:
        codes_BKC = self.quantizer.codes(_padded(tokens.ids, self.max_tokens))
        return self._reconstruct(codes_BKC, tokens.lengths)

    def code_positions(self) -> Tensor:
        return self.quantizer.positions()

    def loss(
        self,
        actions_BTA: Tensor,
        random: SampleRandom,
        weight_BA: Tensor | None = None,
        embodiment_B: Tensor | None = None,
    ) -> TrainingLoss:
        """Mean squared error by the weights of the steps, and how far the codes one step later are
        away, by the weight of overlap; the parts are the former at each trained budget, as
        `loss@8`, and the latter, `overlap_loss`."""
        codes_BKC, _ = self.quantizer(self._latents(actions_BTA, random, embodiment_B))
        budgets, errors = [], []
        for _ in range(self.config.budgets_per_chunk):
            budget_B = random.choose(self.budgets)
            rebuilt_BTA = self._reconstruct(codes_BKC, budget_B, random, embodiment_B)
            squared_BTA = (rebuilt_BTA - actions_BTA).square() * self.step_weights
            if weight_BA is not None:
                squared_BTA = squared_BTA * weight_BA[:, None]
            errors.append(squared_BTA.mean(dim=(1, 2)))
            budgets.append(budget_B)
        error_N, budget_N = torch.cat(errors), torch.cat(budgets)
        parts = {
            f"loss@{budget}": torch.where(budget_N == budget, error_N.detach(), math.nan)
            for budget in self.budgets
        }
        loss = error_N.mean()
        if self.config.overlap_weight:
            later_BTA = torch.cat([actions_BTA[:, 1:], actions_BTA[:, -1:]], dim=1)
            later_BKC, _ = self.quantizer(self._latents(later_BTA, random, embodiment_B))
            parts["overlap_loss"] = (later_BKC - codes_BKC).square().mean(dim=(1, 2))
            loss = loss + self.config.overlap_weight * parts["overlap_loss"].mean()
        return TrainingLoss(loss, parts)

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
        codes_BKC: Tensor,
        budget_B: Tensor,
        random: SampleRandom | None = None,
        embodiment_B: Tensor | None = None,
    ) -> Tensor:
        is_kept_BK = torch.arange(self.max_tokens, device=budget_B.device) < budget_B[:, None]
        kept_BKD = self.from_code(codes_BKC) + self.slots
        source_BKD = torch.where(is_kept_BK[..., None], kept_BKD, self.masks)
        return self.head(self.decoder(self.step_queries(embodiment_B), source_BKD, random))


def _padded(ids_BK: Tensor, num_tokens: int) -> Tensor:
    return F.pad(ids_BK, (0, num_tokens - ids_BK.shape[1]))
