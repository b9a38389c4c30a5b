"""The search for the tokens of `klt`: which vectors of the tables add up to a point.

Shape letters: B point, M path, K token, P coordinate in the basis, V vector of a table, C
coordinate of a vector, G group of vectors, L lane of the search (half a group), S place in a lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

NUM_PATHS = 3
"""Number of paths that are kept between two budgets while fitting, and if no other is asked for."""
NUM_GROUPS = 16
"""Number of groups of a table. A path goes on by the nearest vectors of its nearest groups, which
are found much faster than the nearest of all vectors, and whose first is the same."""
NUM_LANES = 2 * NUM_GROUPS
"""Number of distances beside each other in memory, one of each half of a group: the smallest of a
lane are found 32 at a time, which is several times faster than one after the other."""
DISTANCES_PER_BLOCK = 1 << 20
LOG_GAINS = (-6.0, 2.0)
"""Bounds of the logarithm of the gains of all ids before a token."""


@dataclass(frozen=True)
class VectorTable:
    """The vectors of one token.

    Attributes:
        directions: Orthonormal directions within the basis, (P, C).
        rows: Coordinates of the vectors, (V, C), also in half precision.
        scale: What vectors are multiplied by, as the gains of earlier ids are, ().
        gains: Logarithm of the gain of every id, for the tokens that follow, (V,).
    """

    directions: Tensor
    rows: Tensor
    scale: Tensor
    gains: Tensor

    @cached_property
    def lanes(self) -> Lanes:
        """The vectors as the search reads them."""
        with torch.inference_mode(False):  # they are kept, and not for inference alone
            return Lanes(self.rows.float())


class Lanes:
    """Rows in the order in which the distances to them are looked through.

    With three rows in a lane, 0 to 95 lie in memory as

        lane 0   1   2        31
             0   3   6  ...   93
             1   4   7  ...   94
             2   5   8  ...   95

    and lanes 2 g and 2 g + 1 are group g. Rows that are missing at the end are infinitely far.
    """

    def __init__(self, rows_VC: Tensor) -> None:
        self.size = -(-len(rows_VC) // NUM_LANES)
        missing = NUM_LANES * self.size - len(rows_VC)
        padded_VC = F.pad(rows_VC, (0, 0, 0, missing))
        lengths_V = F.pad(rows_VC.square().sum(dim=1), (0, missing), value=torch.inf)
        rows_LSC = padded_VC.view(NUM_LANES, self.size, rows_VC.shape[1])
        self._rows = rows_LSC.transpose(0, 1).flatten(0, 1)
        self._lengths = lengths_V.view(NUM_LANES, self.size).T.flatten()

    def distances(self, points_NC: Tensor) -> Tensor:
        """Squared distances without the squared lengths of the points, (N, S, L)."""
        distances_NV = torch.addmm(self._lengths, points_NC, self._rows.T, alpha=-2)
        return distances_NV.view(len(points_NC), self.size, NUM_LANES)

    def row_within(self, distances_NSL: Tensor, point_N: Tensor, lane_N: Tensor) -> Tensor:
        """The row of a lane that is nearest to a point, (N,)."""
        place_N: Tensor = distances_NSL[point_N, :, lane_N].argmin(dim=1)
        return self.size * lane_N + place_N


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


def kept_paths(budgets: Sequence[int], token: int, most: int = NUM_PATHS) -> int:
    """Number of paths that are kept after a token, the first of which is 1."""
    return 1 if token in budgets else most


def search(
    points_BP: Tensor,
    tables: Sequence[VectorTable],
    budgets: Sequence[int],
    num_paths: int = NUM_PATHS,
) -> Tensor:
    """Ids of the best paths through all tables, (B, K)."""
    size = max(1, DISTANCES_PER_BLOCK // (len(tables[0].rows) * num_paths))
    found = []
    for block in torch.split(points_BP, size):  # what a block needs stays in the processor's cache
        paths = Paths.start(block)
        for token, table in enumerate(tables, start=1):
            paths = _advance(paths, table, kept_paths(budgets, token, num_paths))
        found.append(paths.ids[:, 0])
    return torch.cat(found)


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
    rows, distances, lanes = [], [], Lanes(rows_VC)
    for block in torch.split(points_NC, max(1, DISTANCES_PER_BLOCK // len(rows_VC))):
        distances_NSL = lanes.distances(block)
        distance_N, lane_N = distances_NSL.amin(dim=1).min(dim=1)
        point_N = torch.arange(len(block), device=block.device)
        rows.append(lanes.row_within(distances_NSL, point_N, lane_N))
        distances.append(distance_N + block.square().sum(dim=1))
    return torch.cat(rows), torch.cat(distances).clamp_min(0)


def _advance(paths: Paths, table: VectorTable, num_kept: int) -> Paths:
    """The same for few points. Below, N is a path of any point, before and after."""
    num_points, num_paths = paths.log_gain.shape
    left_NP, log_gain_N = paths.left.flatten(0, 1), paths.log_gain.flatten()
    scale_N = table.scale * gain_of(log_gain_N)
    distances_NSL = table.lanes.distances(left_NP @ table.directions / scale_N[:, None])
    smallest_NL = distances_NSL.amin(dim=1)
    error_NG = torch.minimum(smallest_NL[:, ::2], smallest_NL[:, 1::2])
    if num_paths > 1:  # of one path the nearest vector leaves least
        length_N = left_NP.square().sum(dim=1)
        error_NG = error_NG * scale_N.square()[:, None] + length_N[:, None]
    error_BX = error_NG.view(num_points, num_paths * NUM_GROUPS)
    chosen_BM = error_BX.topk(num_kept, dim=1, largest=False).indices
    first_B = num_paths * torch.arange(num_points, device=chosen_BM.device)
    path_N = (first_B[:, None] + chosen_BM // NUM_GROUPS).flatten()
    lane_N = 2 * (chosen_BM % NUM_GROUPS).flatten()
    lane_N = lane_N + (smallest_NL[path_N, lane_N + 1] < smallest_NL[path_N, lane_N])
    # Of a small table a path may be asked to choose a vector that is not there.
    id_N = table.lanes.row_within(distances_NSL, path_N, lane_N).clamp(max=len(table.rows) - 1)
    vectors_NC = table.rows.index_select(0, id_N) * scale_N.index_select(0, path_N)[:, None]
    kept_NP = left_NP.index_select(0, path_N)
    log_gain_N = log_gain_N.index_select(0, path_N) + table.gains.index_select(0, id_N)
    ids_NK = torch.cat([paths.ids.flatten(0, 1).index_select(0, path_N), id_N[:, None]], dim=1)
    left_NP = torch.addmm(kept_NP, vectors_NC, table.directions.T, alpha=-1)
    shape = (num_points, num_kept)
    return Paths(
        left_NP.view(*shape, left_NP.shape[1]),
        log_gain_N.view(shape),
        ids_NK.view(*shape, ids_NK.shape[1]),
    )
