"""How the vectors of one token of `klt` are found, for points that have weights.

    vector    k-means centroids within the largest principal directions
    scalar    the points are cut along their largest principal direction into cells (Lloyd-Max),
              what is left of them again, once for each of `levels`; a vector is the sum of the
              means of the cells it lies in
    product   the points are cut along several principal directions at once, into more cells where
              the variance is larger
    drawn     random vectors, whose variance along every principal direction is what reverse
              water-filling gives it at the bits of one token, the code of Shannon's proof; turned
              by two rounds of k-means on random Gaussian points, so that they lie further apart

Vectors of the first two follow the data, those of the last two only its variances: these cannot
learn points by heart, and are the better ones once what is left is close to noise.

Shape letters: N point, P coordinate of a point, V vector, C coordinate of a vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.tokenizers.klt_paths import nearest

MAX_DIRECTIONS = 112
"""Largest number of directions of a table."""
POINTS_OF_CELLS = 4096
"""Number of points that cells along a direction are made from; more are thinned out evenly."""
LLOYD_ROUNDS = 30
SPREAD = 0.25
"""Standard deviation of the logarithm of the lengths of drawn vectors: some fit points that are
larger than most."""
GAUSSIAN_POINTS = 8192
"""Largest number of random points that drawn vectors are turned towards."""
GAUSSIAN_PER_POINT = 8
"""Largest number of them for each point that there is, so that few points take no time."""
GAUSSIAN_ROUNDS = 2
LENGTH_CHANGE = (0.5, 2.0)
"""Bounds of the factor by which a mean of such points is brought to the length of its vector."""


class Vectors(NamedTuple):
    """Vectors within a few directions."""

    directions: Tensor
    """Orthonormal directions, (P, C)."""
    rows: Tensor
    """Coordinates of the vectors, (V, C)."""

    def of(self, points_NP: Tensor) -> Tensor:
        """The vector nearest to each point, (N, P)."""
        row_N, _ = nearest(points_NP @ self.directions, self.rows)
        return self.rows[row_N] @ self.directions.T


def principal_directions(points_NP: Tensor, weights_N: Tensor) -> tuple[Tensor, Tensor]:
    """Variances (P,), largest first, and their directions (P, P)."""
    covariance_PP = (points_NP * weights_N[:, None]).T @ points_NP / weights_N.sum()
    variances_P, directions_PP = torch.linalg.eigh(covariance_PP.double())
    return variances_P.flip(0).clamp_min(0).float(), directions_PP.flip(1).float()


# Vector cells


def vector_cells(
    points_NP: Tensor, weights_N: Tensor, num_rows: int, directions_PC: Tensor, num_rounds: int
) -> Vectors:
    """Centroids; row 0 stays zero, so that a token never has to make things worse."""
    points_NC = points_NP @ directions_PC
    generator = torch.Generator().manual_seed(0)
    rows_VC = _spread_out(points_NC, weights_N, num_rows, generator)
    for _ in range(num_rounds):
        row_N, distance_N = nearest(points_NC, rows_VC)
        means_VC, weights_V = _means(points_NC, weights_N, row_N, num_rows)
        is_used_V = weights_V > 0
        rows_VC = torch.where(is_used_V[:, None], means_VC, rows_VC)
        unused = torch.nonzero(~is_used_V).flatten()[: len(points_NC)]
        if len(unused):
            chosen = _likely_far(distance_N * weights_N, len(unused), generator)
            rows_VC[unused] = points_NC[chosen]
        rows_VC[0] = 0
    return Vectors(directions_PC, rows_VC)


def _spread_out(
    points_NC: Tensor, weights_N: Tensor, num_rows: int, generator: torch.Generator
) -> Tensor:
    """Zero and some of the points, (V, C), far ones likelier: k-means++ in batches that double."""
    rows_VC = points_NC.new_zeros(1, points_NC.shape[1])
    while len(rows_VC) < num_rows:
        _, distance_N = nearest(points_NC, rows_VC)
        wanted = min(len(rows_VC), num_rows - len(rows_VC), len(points_NC))
        chosen = _likely_far(distance_N * weights_N, wanted, generator)
        rows_VC = torch.cat([rows_VC, points_NC[chosen]])
    return rows_VC


def _likely_far(error_N: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Different points, those with larger errors likelier."""
    chances_N = error_N + 1e-9 * error_N.mean() + 1e-30  # all points may be chosen
    return torch.multinomial(chances_N, count, generator=generator)


def _means(
    points_NC: Tensor, weights_N: Tensor, row_N: Tensor, num_rows: int
) -> tuple[Tensor, Tensor]:
    """Weighted mean of the points of each row, (V, C), and the sum of their weights, (V,)."""
    weights_V = points_NC.new_zeros(num_rows).index_add_(0, row_N, weights_N)
    sums_VC = points_NC.new_zeros(num_rows, points_NC.shape[1])
    sums_VC.index_add_(0, row_N, points_NC * weights_N[:, None])
    return sums_VC / weights_V.clamp_min(1e-30)[:, None], weights_V


# Cells along directions


def scalar_cells(points_NP: Tensor, weights_N: Tensor, levels: Sequence[int]) -> Vectors:
    """Sums of the means of cells, each along the largest direction of what the earlier left."""
    sums_VP, left_NP = points_NP.new_zeros(1, points_NP.shape[1]), points_NP
    for num_cells in levels:
        along_N = left_NP @ principal_directions(left_NP, weights_N)[1][:, 0]
        cell_N = torch.bucketize(along_N, _thresholds(_centers(along_N, weights_N, num_cells)))
        means_VP, _ = _means(left_NP, weights_N, cell_N, num_cells)
        left_NP = left_NP - means_VP[cell_N]
        sums_VP = (means_VP[:, None] + sums_VP).flatten(0, 1)  # the first digit counts fastest
    basis_CP = torch.linalg.svd(sums_VP, full_matrices=False).Vh[: sum(levels)]
    return Vectors(basis_CP.T.contiguous(), sums_VP @ basis_CP.T)


def product_cells(
    points_NP: Tensor, weights_N: Tensor, num_rows: int, variances_P: Tensor, directions_PP: Tensor
) -> Vectors:
    """All combinations of the centers of cells along several directions.

    Combinations that are missing to the vocabulary are given to the points they leave most of.
    """
    step = -(-len(points_NP) // POINTS_OF_CELLS)
    weights_S = weights_N[::step]
    along_SP = points_NP[::step] @ directions_PP
    levels = _levels(variances_P, num_rows)
    rows_VC = points_NP.new_zeros(1, 0)
    for direction, num_cells in enumerate(levels):
        centers_V = _centers(along_SP[:, direction], weights_S, num_cells)
        again = centers_V.repeat_interleave(len(rows_VC))[:, None]
        rows_VC = torch.cat([rows_VC.repeat(num_cells, 1), again], dim=1)
    directions_PC = directions_PP[:, : len(levels)]
    missing = num_rows - len(rows_VC)
    points_NC = points_NP @ directions_PC
    _, distance_N = nearest(points_NC, rows_VC)
    far = (distance_N * weights_N).topk(min(missing, len(points_NP))).indices
    rows_VC = torch.cat([rows_VC, points_NC[far]])
    return Vectors(directions_PC, F.pad(rows_VC, (0, 0, 0, num_rows - len(rows_VC))))


def _levels(variances_P: Tensor, num_rows: int) -> list[int]:
    """Numbers of cells along the largest directions, whose product is at most `num_rows`.

    One cell more is given where it takes most error off for the bits it costs, as if Gaussian.
    """
    levels: list[int] = []
    variances = variances_P[:MAX_DIRECTIONS].tolist()
    while True:
        gains = []
        for i, (count, variance) in enumerate(zip([*levels, 1], variances, strict=False)):
            if math.prod(levels) // count * (count + 1) <= num_rows:
                taken_off = variance * (_gaussian_error(count) - _gaussian_error(count + 1))
                gains.append((taken_off / math.log((count + 1) / count), -i))
        if not gains:
            return levels
        best = -max(gains)[1]
        levels[best : best + 1] = [levels[best] + 1 if best < len(levels) else 2]


def _gaussian_error(num_cells: int) -> float:
    """About what the best cells leave of a variance of 1."""
    return 1 / (1 + 0.585 * (num_cells**2 - 1))


def _centers(values_N: Tensor, weights_N: Tensor, num_cells: int) -> Tensor:
    """Centers of cells (V,) that make the weighted squared error smallest, by Lloyd and Max."""
    sorted_N, order_N = values_N.double().sort()
    weights_N = weights_N[order_N].double()
    shares_N = weights_N.cumsum(0)
    sums_N = F.pad((sorted_N * weights_N).cumsum(0), (1, 0))
    ranks = (torch.arange(num_cells) + 0.5) / num_cells * shares_N[-1]
    centers_V = sorted_N[torch.searchsorted(shares_N, ranks).clamp(max=len(sorted_N) - 1)]
    shares_N = F.pad(shares_N, (1, 0))
    for _ in range(LLOYD_ROUNDS):
        cuts = torch.searchsorted(sorted_N, _thresholds(centers_V))
        first, end = F.pad(cuts, (1, 0)), F.pad(cuts, (0, 1), value=len(sorted_N))
        weights_V = shares_N[end] - shares_N[first]
        means_V = (sums_N[end] - sums_N[first]) / weights_V.clamp_min(1e-30)
        centers_V = torch.where(weights_V > 0, means_V, centers_V)
    return centers_V.to(values_N)


def _thresholds(centers_V: Tensor) -> Tensor:
    return (centers_V[1:] + centers_V[:-1]) / 2


# Drawn vectors


def drawn_cells(
    points_NP: Tensor,
    weights_N: Tensor,
    num_rows: int,
    variances_P: Tensor,
    directions_PP: Tensor,
    seed: int,
) -> Vectors:
    """Random vectors, turned apart; row 0 is zero."""
    largest_C = variances_P[:MAX_DIRECTIONS].double()
    level = water_level(largest_C, math.log2(num_rows))
    deviations_C = (largest_C - level).clamp_min(0).sqrt().float()
    deviations_C = deviations_C[: max(1, int((deviations_C > 0).sum()))]
    generator = torch.Generator().manual_seed(seed)
    rows_VC = torch.randn(num_rows, len(deviations_C), generator=generator) * deviations_C
    rows_VC *= torch.exp(SPREAD * torch.randn(num_rows, 1, generator=generator))
    rows_VC[0] = 0
    size_N = points_NP.norm(dim=1) / variances_P.sum().sqrt().clamp_min(1e-30)
    count = min(GAUSSIAN_POINTS, GAUSSIAN_PER_POINT * len(points_NP))
    chosen_N = torch.multinomial(weights_N, count, replacement=True, generator=generator)
    gaussian_NC = torch.randn(count, len(deviations_C), generator=generator)
    gaussian_NC *= largest_C[: len(deviations_C)].sqrt().float() * size_N[chosen_N, None]
    return Vectors(directions_PP[:, : len(deviations_C)], _turned_apart(rows_VC, gaussian_NC))


def _turned_apart(rows_VC: Tensor, points_NC: Tensor) -> Tensor:
    """Rows of the same lengths, each towards the mean of the points that it is nearest to.

    With the lengths of the means, which are all alike, chunks larger than most are left further.
    """
    length_V, weights_N = rows_VC.norm(dim=1), torch.ones(len(points_NC))
    for _ in range(GAUSSIAN_ROUNDS):
        row_N, _ = nearest(points_NC, rows_VC)
        means_VC, count_V = _means(points_NC, weights_N, row_N, len(rows_VC))
        rows_VC = torch.where((count_V > 0)[:, None], means_VC, rows_VC)
        rows_VC[0] = 0
    change_V = length_V / rows_VC.norm(dim=1).clamp_min(1e-9)
    return rows_VC * change_V.clamp(*LENGTH_CHANGE)[:, None]


def water_level(variances_P: Tensor, bits: float) -> float:
    """The error that is left of every variance above it when so many bits describe them."""
    logs_P = variances_P[variances_P > 0].double().log2()
    if not len(logs_P):
        return 0.0
    counts_P = torch.arange(1, len(logs_P) + 1)
    # With the n largest described, the level that spends exactly all bits:
    levels_P = (logs_P.cumsum(0) - 2 * bits) / counts_P
    # n is right when its smallest variance is still above the level.
    return float(2 ** levels_P[levels_P <= logs_P][-1])
