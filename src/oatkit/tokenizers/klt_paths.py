"""The search for the tokens of `klt`: which vectors of the tables add up to a point.

Shape letters: B point, M path, K token, P coordinate in the basis, V vector of a table, C
coordinate of a vector, G group of vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

NUM_PATHS = 3
"""Number of paths that are kept between two budgets."""
NUM_GROUPS = 16
"""Number of groups of a table. A path goes on by the nearest vectors of its nearest groups, which
are found much faster than the nearest of all vectors, and whose first is the same."""
DISTANCES_PER_BLOCK = 1 << 20
LOG_GAINS = (-6.0, 2.0)
"""Bounds of the logarithm of the gains of all ids before a token."""


@dataclass(frozen=True)
class VectorTable:
    """The vectors of one token.

    Attributes:
        directions: Orthonormal directions within the basis, (P, C).
        rows: Coordinates of the vectors, (V, C).
        scale: What vectors are multiplied by, as the gains of earlier ids are, ().
        gains: Logarithm of the gain of every id, for the tokens that follow, (V,).
    """

    directions: Tensor
    rows: Tensor
    scale: Tensor
    gains: Tensor


@dataclass(frozen=True)
class Paths:
    """Tokens of every point so far, best first.

    Attributes:
        left: What they leave of the points, (B, M, P).
        log_gain: Sum of the logarithms of their gains, (B, M).
        ids: Their ids, (B, M, K).
    """

    left: Tensor
    log_gain: Tensor
    ids: Tensor

    @classmethod
    def start(cls, points_BP: Tensor) -> Paths:
        """One path without tokens for every point."""
        none = points_BP.new_zeros(len(points_BP), 1, 0, dtype=torch.int64)
        return cls(points_BP[:, None], points_BP.new_zeros(len(points_BP), 1), none)

    def best(self) -> Paths:
        """The best path alone."""
        return Paths(self.left[:, :1], self.log_gain[:, :1], self.ids[:, :1])

    def split(self, size: int) -> Iterator[Paths]:
        """Parts of so many points."""
        parts = (torch.split(x, size) for x in (self.left, self.log_gain, self.ids))
        return (Paths(*part) for part in zip(*parts, strict=True))


def gain_of(log_gain: Tensor) -> Tensor:
    """The factor that stands for a sum of logarithms of gains."""
    return log_gain.clamp(*LOG_GAINS).exp()


def kept_paths(budgets: Sequence[int], token: int) -> int:
    """Number of paths that are kept after a token, the first of which is 1."""
    return 1 if token in budgets else NUM_PATHS


def advance(paths: Paths, table: VectorTable, num_kept: int) -> Paths:
    """The best paths that are longer by one token."""
    size = max(1, DISTANCES_PER_BLOCK // (len(table.rows) * paths.left.shape[1]))
    parts = [_advance(part, table, num_kept) for part in paths.split(size)]
    return Paths(
        torch.cat([part.left for part in parts]),
        torch.cat([part.log_gain for part in parts]),
        torch.cat([part.ids for part in parts]),
    )


def nearest(points_NC: Tensor, rows_VC: Tensor) -> tuple[Tensor, Tensor]:
    """Which row is nearest to each point, (N,), and its squared distance, (N,)."""
    rows, distances = [], []
    for block in torch.split(points_NC, max(1, DISTANCES_PER_BLOCK // len(rows_VC))):
        distances_NGV = _distances(block, rows_VC)
        distance_N, group_N = distances_NGV.amin(dim=2).min(dim=1)
        row_N = distances_NGV[torch.arange(len(block)), group_N].argmin(dim=1)
        rows.append(group_N * distances_NGV.shape[2] + row_N)
        distances.append(distance_N + block.square().sum(dim=1))
    return torch.cat(rows), torch.cat(distances).clamp_min(0)


def _advance(paths: Paths, table: VectorTable, num_kept: int) -> Paths:
    scale_BM = table.scale * gain_of(paths.log_gain)
    points_BMC = paths.left @ table.directions / scale_BM[..., None]
    distances_NGV = _distances(points_BMC.flatten(0, 1), table.rows)
    distances_BMGV = distances_NGV.view(*scale_BM.shape, *distances_NGV.shape[1:])
    error_BMG = distances_BMGV.amin(dim=3) * scale_BM[..., None].square()
    error_BMG += paths.left.square().sum(dim=2, keepdim=True)
    chosen_BM = error_BMG.flatten(1).topk(num_kept, dim=1, largest=False).indices
    row_BM = _take(distances_BMGV.flatten(1, 2), chosen_BM).argmin(dim=2)
    path_BM, group_BM = chosen_BM // NUM_GROUPS, chosen_BM % NUM_GROUPS
    # Of a small table a path may be asked to choose a vector that is not there.
    id_BM = (group_BM * distances_BMGV.shape[3] + row_BM).clamp(max=len(table.rows) - 1)
    scale_BM = scale_BM.gather(1, path_BM)
    vectors_BMP = scale_BM[..., None] * table.rows[id_BM] @ table.directions.T
    return Paths(
        _take(paths.left, path_BM) - vectors_BMP,
        paths.log_gain.gather(1, path_BM) + table.gains[id_BM],
        torch.cat([_take(paths.ids, path_BM), id_BM[..., None]], dim=2),
    )


def _take(values_BMX: Tensor, path_BM: Tensor) -> Tensor:
    return values_BMX.gather(1, path_BM[..., None].expand(-1, -1, values_BMX.shape[2]))


def _distances(points_NC: Tensor, rows_VC: Tensor) -> Tensor:
    """Squared distances without the squared lengths of the points, (N, G, V of a group)."""
    missing = -len(rows_VC) % NUM_GROUPS
    lengths_V = F.pad(rows_VC.square().sum(dim=1), (0, missing), value=torch.inf)
    padded_VC = F.pad(rows_VC, (0, 0, 0, missing))
    distances_NV = torch.addmm(lengths_V, points_NC, padded_VC.T, alpha=-2)
    return distances_NV.view(len(points_NC), NUM_GROUPS, len(padded_VC) // NUM_GROUPS)
