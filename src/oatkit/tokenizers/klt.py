"""`klt`: an ordered tokenizer computed from the data in about a minute, without gradient descent.

Every token looks up a vector in tables of its own, and decoding adds them up:

    chunk = mean + vector of token 1 + vector of token 2 + ...

Encoding takes, token by token, the vector nearest to what the earlier ones left. So every prefix
and every sequence of ids decodes, and each token takes the most that is left. Two kinds of cells:

    vector   a token has one table with as many vectors as the vocabulary: the k-means centroids of
             the residual chunks, within their largest principal directions (Karhunen-Loeve)
    scalar   a token has one table for each of `levels`: the residuals are cut along their largest
             principal direction into that many cells (Lloyd-Max), whose means are the vectors;
             an id is the mixed radix number of the cells, as in FSQ. Faster to fit, less exact

With few chunks a vector, k-means learns chunks by heart, and what it leaves of them says little of
what it leaves of others. So while fitting, the vector of a chunk comes from a table made without
its neighborhood, and later tokens see honest residuals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.fsq import FiniteScalarQuantizer
from oatkit.tokenizers.codec import doubling, no_progress
from oatkit.types import Schedule, Tokens

MAX_CHUNKS = 32_768
"""Largest number of chunks to fit on; more are thinned out evenly."""
FOLDS = 4
BLOCKS_PER_FOLD = 10
"""Chunks that overlap in time must not be spread over folds: a fold is made of long blocks."""
KMEANS_ROUNDS = 3
FOLD_ROUNDS = 2
POWER_ITERATIONS = 60
LLOYD_ROUNDS = 30
CHUNKS_PER_BLOCK = 2048


@dataclass(frozen=True)
class KltConfig:
    """Tokens that look up vectors in tables, each for what the earlier tokens left."""

    horizon: int
    action_dim: int
    kind: Literal["klt"] = "klt"
    num_tokens: int = 16
    levels: tuple[int, ...] = (8, 8, 6, 5)
    """Numbers of cells, whose product is the vocabulary."""
    cells: Literal["vector", "scalar"] = "vector"
    """Whether a token has one table, or one for each of its levels."""

    def __post_init__(self) -> None:
        for name in ("horizon", "action_dim", "num_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")

    @property
    def table_sizes(self) -> tuple[int, ...]:
        """Number of rows of each table of a token."""
        return self.levels if self.cells == "scalar" else (math.prod(self.levels),)


class Klt(nn.Module):
    """The codec.

    Shape letters: N chunk, D number of a flattened chunk, R table (token by token), V row.
    """

    is_ordered = True
    is_total = True
    is_fixed_length = True
    has_prefixes = True
    mean: Tensor
    tables: Tensor

    def __init__(self, config: KltConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = math.prod(config.levels)
        self.max_tokens = config.num_tokens
        self.budgets = doubling(config.num_tokens)
        self.schedule = Schedule.tokenwise(config.num_tokens)
        self.quantizer = FiniteScalarQuantizer(config.table_sizes)
        self.sizes = config.table_sizes * config.num_tokens
        size = config.horizon * config.action_dim
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("tables", torch.zeros(len(self.sizes), max(self.sizes), size))

    def fit(
        self,
        chunks: Callable[[], Iterator[Tensor]],
        on_progress: Callable[[float], None] = no_progress,
    ) -> None:
        residual_ND = _thinned(chunks)
        self.mean.copy_(residual_ND.mean(dim=0))
        residual_ND = residual_ND - self.mean
        num_directions = residual_ND.shape[1]
        self.tables.zero_()
        for done, (table_VD, size) in enumerate(zip(self.tables, self.sizes, strict=True)):
            if self.config.cells == "scalar":
                rows_VD = _cells_along_top_direction(residual_ND, size)
                residual_ND = residual_ND - rows_VD[_nearest(residual_ND, rows_VD)]
            else:
                rows_VD, residual_ND, num_directions = _centroids(residual_ND, size, num_directions)
            table_VD[:size] = rows_VD
            on_progress((done + 1) / len(self.sizes))

    def encode(self, actions_BTA: Tensor) -> Tokens:
        residual_BD = actions_BTA.flatten(1) - self.mean
        found = []
        for table_VD, size in zip(self.tables, self.sizes, strict=True):
            found.append(_nearest(residual_BD, table_VD[:size]))
            residual_BD = residual_BD - table_VD[found[-1]]
        rows_BKC = torch.stack(found, dim=1).view(len(actions_BTA), self.max_tokens, -1)
        return Tokens.full(self.quantizer.join(rows_BKC))

    def decode(self, tokens: Tokens) -> Tensor:
        ids_BK = F.pad(tokens.ids, (0, int(tokens.ids.shape[1] == 0)))  # a bag holds something
        slot_K = torch.arange(ids_BK.shape[1], device=ids_BK.device)
        rows_BR = self.quantizer.digits(ids_BK).flatten(1)
        first_R = self.tables.shape[1] * torch.arange(rows_BR.shape[1], device=ids_BK.device)
        is_kept_BK = slot_K < tokens.lengths[:, None]
        summed_BD = F.embedding_bag(
            rows_BR + first_R,
            self.tables.flatten(0, 1),
            per_sample_weights=is_kept_BK.to(self.mean).repeat_interleave(
                len(self.config.table_sizes), dim=1
            ),
            mode="sum",
        )
        return (self.mean + summed_BD).view(-1, self.config.horizon, self.config.action_dim)


def _thinned(chunks: Callable[[], Iterator[Tensor]]) -> Tensor:
    """Flattened chunks (N, D), evenly spread, no more than `MAX_CHUNKS`."""
    total = sum(len(block) for block in chunks())
    step, kept, first = -(-total // MAX_CHUNKS), [], 0
    for block in chunks():
        kept.append(block[first::step].flatten(1))
        first = (first - len(block)) % step
    return torch.cat(kept)


def _nearest(points_ND: Tensor, rows_VD: Tensor) -> Tensor:
    """Which row is nearest to each point, (N,)."""
    lengths_V = rows_VD.square().sum(dim=1)
    blocks = torch.split(points_ND, CHUNKS_PER_BLOCK)
    return torch.cat([torch.addmm(lengths_V, x, rows_VD.T, alpha=-2).argmin(1) for x in blocks])


# Vector cells


def _centroids(
    residual_ND: Tensor, num_rows: int, num_directions: int
) -> tuple[Tensor, Tensor, int]:
    """A table (V, D), what it leaves of every chunk, and in how many directions it lies.

    Half and double the directions of the previous token are tried on one fold: few directions
    average noise out, many tell chunks apart.
    """
    all_DD = torch.linalg.eigh(residual_ND.T @ residual_ND).eigenvectors.flip(1)
    fold_N = _folds(len(residual_ND))
    found_ND = torch.zeros_like(residual_ND)
    tried = {}
    for count in {max(1, num_directions // 2), num_directions, 2 * num_directions}:
        if count <= len(all_DD):
            tried[count] = _from_other_folds(residual_ND, fold_N, 0, num_rows, all_DD[:, :count])
    held_ND = residual_ND[fold_N == 0]
    best = min(tried, key=lambda count: float((held_ND - tried[count]).square().sum()))
    basis_DP = all_DD[:, :best]
    found_ND[fold_N == 0] = tried[best]
    for fold in range(1, FOLDS):
        found_ND[fold_N == fold] = _from_other_folds(residual_ND, fold_N, fold, num_rows, basis_DP)
    # The share of the vectors that holds for chunks they were not made from.
    share = float((found_ND * residual_ND).sum() / found_ND.square().sum().clamp_min(1e-30))
    rows_VP = _kmeans(residual_ND @ basis_DP, num_rows, KMEANS_ROUNDS)
    return share * rows_VP @ basis_DP.T, residual_ND - share * found_ND, best


def _folds(count: int) -> Tensor:
    return torch.arange(count) * FOLDS * BLOCKS_PER_FOLD // count % FOLDS


def _from_other_folds(
    residual_ND: Tensor, fold_N: Tensor, fold: int, num_rows: int, basis_DP: Tensor
) -> Tensor:
    """The vector of each chunk of a fold, from a table that was made without the fold."""
    points_NP = residual_ND @ basis_DP
    others_NP, held_NP = points_NP[fold_N != fold], points_NP[fold_N == fold]
    if not len(others_NP):
        return torch.zeros_like(residual_ND[fold_N == fold])
    rows_VP = _kmeans(others_NP, num_rows, FOLD_ROUNDS)
    return rows_VP[_nearest(held_NP, rows_VP)] @ basis_DP.T


def _kmeans(points_NP: Tensor, num_rows: int, num_rounds: int) -> Tensor:
    """Centroids (V, P); row 0 stays zero, so that a token never has to make things worse."""
    rows_VP = _spread_out(points_NP, num_rows)
    for _ in range(num_rounds):
        row_N = _nearest(points_NP, rows_VP)
        counts_V = torch.bincount(row_N, minlength=num_rows)
        means_VP = _means(points_NP, row_N, counts_V)
        rows_VP = torch.where((counts_V > 0)[:, None], means_VP, rows_VP)
        rows_VP[0] = 0
    return rows_VP


def _spread_out(points_NP: Tensor, num_rows: int) -> Tensor:
    """Zero and some of the points, (V, P), far ones likelier: k-means++ in batches that double."""
    generator = torch.Generator().manual_seed(0)
    rows_VP = points_NP.new_zeros(1, points_NP.shape[1])
    while len(rows_VP) < num_rows:
        error_N = (points_NP - rows_VP[_nearest(points_NP, rows_VP)]).square().sum(dim=1)
        weight_N = error_N + 1e-9 * error_N.mean() + 1e-30  # all points may be chosen
        wanted = min(len(rows_VP), num_rows - len(rows_VP), len(points_NP))
        chosen = torch.multinomial(weight_N, wanted, generator=generator)
        rows_VP = torch.cat([rows_VP, points_NP[chosen]])
    return rows_VP


def _means(points_ND: Tensor, row_N: Tensor, counts_V: Tensor) -> Tensor:
    sums_VD = points_ND.new_zeros(len(counts_V), points_ND.shape[1])
    return sums_VD.index_add_(0, row_N, points_ND) / counts_V.clamp_min(1)[:, None]


# Scalar cells


def _cells_along_top_direction(residual_ND: Tensor, num_cells: int) -> Tensor:
    """The mean residual of each cell, (V, D)."""
    along_N = residual_ND @ _top_direction(residual_ND.T @ residual_ND)
    cell_N = torch.bucketize(along_N, _lloyd_max(along_N, num_cells), right=True)
    return _means(residual_ND, cell_N, torch.bincount(cell_N, minlength=num_cells))


def _top_direction(covariance_DD: Tensor) -> Tensor:
    """The direction of largest variance, by power iteration; any one where several tie."""
    # The column of the largest variance lies far from orthogonal to it.
    direction_D = covariance_DD[covariance_DD.diagonal().argmax()].clone()
    for _ in range(POWER_ITERATIONS):
        direction_D /= direction_D.norm().clamp_min(1e-30)
        direction_D = covariance_DD @ direction_D
    norm = direction_D.norm()
    return direction_D / norm if norm > 0 else torch.eye(len(direction_D))[0]


def _lloyd_max(values_N: Tensor, num_levels: int) -> Tensor:
    """Thresholds (levels - 1,) that make the squared error to the nearest centroid smallest."""
    sorted_N = values_N.sort().values
    sums_N = F.pad(sorted_N.double().cumsum(0), (1, 0))
    ranks = (torch.arange(num_levels) + 0.5) / num_levels * (len(sorted_N) - 1)
    centroids_V = sorted_N[ranks.long()]
    for _ in range(LLOYD_ROUNDS):
        cuts = torch.searchsorted(sorted_N, (centroids_V[1:] + centroids_V[:-1]) / 2)
        ends = F.pad(cuts, (1, 0)), F.pad(cuts, (0, 1), value=len(sorted_N))
        counts_V = ends[1] - ends[0]
        means_V = (sums_N[ends[1]] - sums_N[ends[0]]).to(values_N) / counts_V.clamp_min(1)
        centroids_V = torch.where(counts_V > 0, means_V, centroids_V)
    return (centroids_V[1:] + centroids_V[:-1]) / 2
