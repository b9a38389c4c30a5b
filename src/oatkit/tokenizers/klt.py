"""`klt`: an ordered tokenizer computed from the data in seconds, without gradient descent.

Each scalar of each token cuts the residual chunks along their currently largest principal
direction (Karhunen-Loeve) into as many cells as it has levels, at the thresholds of a Lloyd-Max
quantiser. What is subtracted, and what decoding adds up, is the mean residual of the cell:

    chunk = mean + cell mean of scalar 1 + cell mean of scalar 2 + ...

A prefix is a shorter sum, so every prefix and every sequence of ids decodes. Ids are the same
mixed radix as FSQ's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.fsq import FiniteScalarQuantizer
from oatkit.tokenizers.codec import doubling
from oatkit.types import Schedule, Tokens

MAX_CHUNKS = 65_536
"""More chunks than this are thinned out evenly before fitting."""
POWER_ITERATIONS = 60
LLOYD_ROUNDS = 30


@dataclass(frozen=True)
class KltConfig:
    """Principal directions of what the earlier tokens left."""

    horizon: int
    action_dim: int
    kind: Literal["klt"] = "klt"
    num_tokens: int = 16
    levels: tuple[int, ...] = (8, 8, 6, 5)
    """Cells of each scalar of a token; their product is the vocabulary."""

    def __post_init__(self) -> None:
        for name in ("horizon", "action_dim", "num_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")


class Klt(nn.Module):
    """The codec.

    Shape letters: N chunk, D number of a flattened chunk, R scalar (token by token, level by
    level), V cell of a scalar.
    """

    is_ordered = True
    is_total = True
    is_fixed_length = True
    has_prefixes = True
    mean: Tensor
    directions: Tensor
    thresholds: Tensor
    cell_means: Tensor

    def __init__(self, config: KltConfig) -> None:
        super().__init__()
        self.config = config
        self.quantizer = FiniteScalarQuantizer(config.levels)
        self.vocab_size = self.quantizer.num_codes
        self.max_tokens = config.num_tokens
        self.budgets = doubling(config.num_tokens)
        self.schedule = Schedule.tokenwise(config.num_tokens)
        size = config.horizon * config.action_dim
        num_scalars = config.num_tokens * len(config.levels)
        most = max(config.levels)
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("directions", torch.zeros(num_scalars, size))
        # a scalar with fewer levels has infinite thresholds for the cells it lacks
        self.register_buffer("thresholds", torch.full((num_scalars, most - 1), torch.inf))
        self.register_buffer("cell_means", torch.zeros(num_scalars, most, size))

    def fit(self, chunks: Callable[[], Iterator[Tensor]]) -> None:
        residual_ND = _thinned(chunks).double()
        self.mean.copy_(residual_ND.mean(dim=0))
        residual_ND -= residual_ND.mean(dim=0)
        covariance_DD = residual_ND.T @ residual_ND
        for scalar, direction_D in enumerate(self.directions):
            num_levels = self.config.levels[scalar % len(self.config.levels)]
            top_D = _top_direction(covariance_DD)
            direction_D.copy_(top_D)
            along_N = residual_ND @ direction_D.double()
            thresholds_V = _lloyd_max(along_N, num_levels)
            self.thresholds[scalar, : num_levels - 1] = thresholds_V
            cell_N = torch.bucketize(along_N, self.thresholds[scalar].double(), right=True)
            means_VD = _cell_means(residual_ND, cell_N, self.cell_means.shape[1])
            self.cell_means[scalar] = means_VD
            covariance_DD -= _explained(cell_N, means_VD)
            residual_ND -= means_VD[cell_N]

    def encode(self, actions_BTA: Tensor) -> Tokens:
        residual_BD = actions_BTA.flatten(1) - self.mean
        cells = []
        for direction_D, thresholds_V, means_VD in zip(
            self.directions, self.thresholds, self.cell_means, strict=True
        ):
            cell_B = torch.bucketize(residual_BD @ direction_D, thresholds_V, right=True)
            residual_BD = residual_BD - means_VD[cell_B]
            cells.append(cell_B)
        cells_BKR = torch.stack(cells, dim=1).view(-1, self.max_tokens, len(self.config.levels))
        ids_BK = self.quantizer.join(cells_BKR)
        return Tokens.full(ids_BK)

    def decode(self, tokens: Tokens) -> Tensor:
        num_levels = len(self.config.levels)
        ids_BK = F.pad(tokens.ids, (0, int(tokens.ids.shape[1] == 0)))  # a bag holds something
        slot_K = torch.arange(ids_BK.shape[1], device=ids_BK.device)
        cells_BR = self.quantizer.digits(ids_BK).flatten(1)
        first_R = self.cell_means.shape[1] * torch.arange(cells_BR.shape[1], device=ids_BK.device)
        is_kept_BR = (slot_K < tokens.lengths[:, None]).repeat_interleave(num_levels, dim=1)
        summed_BD = F.embedding_bag(
            cells_BR + first_R,
            self.cell_means.flatten(0, 1),
            per_sample_weights=is_kept_BR.to(self.mean.dtype),
            mode="sum",
        )
        return (self.mean + summed_BD).view(-1, self.config.horizon, self.config.action_dim)


def _thinned(chunks: Callable[[], Iterator[Tensor]]) -> Tensor:
    """At most `MAX_CHUNKS` flattened chunks, evenly spread, (N, D)."""
    total = sum(len(block) for block in chunks())
    step, kept, first = -(-total // MAX_CHUNKS), [], 0
    for block in chunks():
        kept.append(block[first::step].flatten(1))
        first = (first - len(block)) % step
    return torch.cat(kept)


def _top_direction(covariance_DD: Tensor) -> Tensor:
    """The direction of largest variance, by power iteration; any one where several tie."""
    # The column of the largest variance lies far from orthogonal to it.
    direction_D = covariance_DD[covariance_DD.diagonal().argmax()].clone()
    for _ in range(POWER_ITERATIONS):
        direction_D /= direction_D.norm().clamp_min(1e-300)
        direction_D = covariance_DD @ direction_D
    norm = direction_D.norm()
    return direction_D / norm if norm > 0 else torch.eye(len(direction_D))[0].double()


def _lloyd_max(values_N: Tensor, num_levels: int) -> Tensor:
    """Thresholds (levels - 1,) that make the squared error to the nearest centroid smallest."""
    sorted_N = values_N.sort().values
    sums_N = F.pad(sorted_N.cumsum(0), (1, 0))
    ranks = (torch.arange(num_levels) + 0.5) / num_levels * (len(sorted_N) - 1)
    centroids_V = sorted_N[ranks.long()]
    for _ in range(LLOYD_ROUNDS):
        cuts = torch.searchsorted(sorted_N, (centroids_V[1:] + centroids_V[:-1]) / 2)
        ends = F.pad(cuts, (1, 0)), F.pad(cuts, (0, 1), value=len(sorted_N))
        counts_V = ends[1] - ends[0]
        means_V = (sums_N[ends[1]] - sums_N[ends[0]]) / counts_V.clamp_min(1)
        centroids_V = torch.where(counts_V > 0, means_V, centroids_V)
    return (centroids_V[1:] + centroids_V[:-1]) / 2


def _cell_means(residual_ND: Tensor, cell_N: Tensor, num_cells: int) -> Tensor:
    counts_V = torch.bincount(cell_N, minlength=num_cells)
    sums_VD = residual_ND.new_zeros(num_cells, residual_ND.shape[1])
    return sums_VD.index_add_(0, cell_N, residual_ND) / counts_V.clamp_min(1)[:, None]


def _explained(cell_N: Tensor, means_VD: Tensor) -> Tensor:
    """What subtracting the cell means takes from the covariance, (D, D).

    Residuals of a cell have the cell's mean, so cross terms vanish.
    """
    counts_V = torch.bincount(cell_N, minlength=len(means_VD)).double()
    return means_VD.T @ (counts_V[:, None] * means_VD)
