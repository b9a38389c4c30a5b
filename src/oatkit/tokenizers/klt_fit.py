"""Fitting `klt`: the basis, and table after table for what the earlier tokens leave.

With few chunks a vector, k-means learns chunks by heart, and what it leaves of them says little of
what it leaves of others. So while fitting, the vector of a chunk comes from a table made without
its neighborhood, and later tokens see honest residuals.

Shape letters: N chunk, D number of a flattened chunk, P coordinate in the basis, V vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from oatkit.tokenizers.codec import spread_blocks
from oatkit.tokenizers.klt_cells import (
    MAX_DIRECTIONS,
    Vectors,
    drawn_cells,
    principal_directions,
    product_cells,
    scalar_cells,
    vector_cells,
    water_level,
)
from oatkit.tokenizers.klt_paths import Paths, VectorTable, advance, gain_of, kept_paths, nearest

CellsName = Literal["auto", "vector", "scalar", "product", "drawn"]
"""How tables are made; "auto" tries all."""
ANALYTIC = ("scalar", "product", "drawn")
"""Cells that have too few numbers to learn points by heart."""
MAX_CHUNKS = 32_768
"""Largest number of chunks to fit on; more are thinned out evenly."""
MAX_BASIS = 192
LEFT_OUT = 0.01
"""Error that the basis may leave, as a share of that of an ideal code of all tokens."""
FOLDS = 4
BLOCKS_PER_FOLD = 10
CHUNKS_PER_BLOCK = 128
"""Chunks that overlap in time must not be spread over folds: a fold is made of a few blocks, each
of so many chunks at least."""
KMEANS_ROUNDS = 3
FOLD_ROUNDS = 2
LOSSES = 2
"""Number of tokens in a row after which vector cells, which take longest, are not tried again."""
MANY_NUMBERS = 1 << 22
VECTOR_TOKENS = 4
"""Number of tokens that try vector cells where points have more numbers than that, for time."""
EFFICIENCY = 0.8
"""Share of the bits of the tokens to come that counts when an ideal code stands for them."""
MARGIN = 0.01
"""Share by which the outlook of vector cells has to be better than that of others: paths gain more
with those, which the outlook does not see."""
CHUNKS_PER_GAIN = 4
"""Number of chunks that an id must have left for its gain to be half its own."""
MAX_LOG_GAIN = 2.0


class Basis(NamedTuple):
    """Where the chunks lie."""

    mean: Tensor
    """Mean chunk, (D,)."""
    directions: Tensor
    """Principal directions, (D, P)."""


class Points(NamedTuple):
    """What the earlier tokens left, in units of its expected size."""

    values: Tensor
    """(N, P)."""
    weights: Tensor
    """Squared units, (N,)."""
    scale: Tensor
    """Mean unit, ()."""

    def part(self, is_kept_N: Tensor) -> Points:
        """Some of the points."""
        return Points(self.values[is_kept_N], self.weights[is_kept_N], self.scale)


def thinned(chunks: Callable[[], Iterator[Tensor]]) -> Tensor:
    """Flattened chunks (N, D), evenly spread, no more than `MAX_CHUNKS`."""
    total = sum(len(block) for block in chunks())
    step = -(-total // MAX_CHUNKS)
    kept_ND, count = torch.empty(0), 0
    for part in spread_blocks(chunks(), step):
        if not count:  # made once: small copies among large blocks would tear memory to pieces
            kept_ND = part.new_empty(-(-total // step), part[0].numel())
        kept_ND[count : count + len(part)] = part.flatten(1)
        count += len(part)
    return kept_ND


def fit_basis(chunks_ND: Tensor, bits: float) -> Basis:
    """The mean, and as many principal directions as are needed to spend so many bits a chunk."""
    mean_D = chunks_ND.mean(dim=0)
    variances_D, directions_DD = principal_directions(
        chunks_ND - mean_D, torch.ones(len(chunks_ND))
    )
    level = water_level(variances_D, bits)
    ideal = variances_D.clamp(max=level).double().sum()
    left_D = variances_D.double().flip(0).cumsum(0).flip(0)  # without the directions before
    wanted = int((left_D > LEFT_OUT * ideal).sum())
    return Basis(mean_D, directions_DD[:, : min(max(wanted, 1), MAX_BASIS)].contiguous())


class TableFitter:
    """Makes the tables of all tokens, one after the other.

    Args:
        cells: How tables are made.
        levels: Numbers of cells, whose product is the number of vectors of a table.
        budgets: Numbers of tokens at which one path is chosen.
    """

    def __init__(self, cells: CellsName, levels: Sequence[int], budgets: Sequence[int]) -> None:
        self._cells = cells
        self._levels = levels
        self._num_rows = math.prod(levels)
        self._budgets = budgets
        self._num_directions = MAX_DIRECTIONS
        self._lost = 0
        self.chosen: list[str | int] = []
        """What every token so far is: the name of its cells, or the directions of vector cells."""

    def fit(self, points_NP: Tensor, num_tokens: int) -> Iterator[VectorTable]:
        """The tables, made from points in the basis."""
        paths = Paths.start(points_NP)
        fold_N = _folds(len(points_NP))
        for token in range(1, num_tokens + 1):
            points = _normalized(paths)
            found, honest_NP = self._vectors(points, fold_N, token)
            rows_VC = found.rows.half().float()  # as it is stored
            no_gains_V = rows_VC.new_zeros(len(rows_VC))
            table = VectorTable(found.directions, rows_VC, points.scale, no_gains_V)
            if honest_NP is None:
                paths = advance(paths, table, kept_paths(self._budgets, token))
            else:
                paths = _with_honest(paths, points, table, honest_NP)
            gains_V = _gains(paths, table)
            log_gain_NM = paths.log_gain + gains_V[paths.ids[..., -1]]
            paths = Paths(paths.left, log_gain_NM, paths.ids)
            yield VectorTable(found.directions, rows_VC, points.scale, gains_V)

    def _vectors(self, points: Points, fold_N: Tensor, token: int) -> tuple[Vectors, Tensor | None]:
        """Vectors of the cells with the best outlook, and the honest ones of all points, (N, P)."""
        variances_P, directions_PP = principal_directions(points.values, points.weights)
        best: str | int = self._cells
        if best in ("auto", "vector"):
            tried = self._tried(points, fold_N, token, directions_PP)
            outlooks = {name: self._outlook(points, tried[name], token) for name in tried}
            outlooks |= {name: outlooks[name] + MARGIN for name in tried if isinstance(name, int)}
            best = min(outlooks, key=outlooks.__getitem__)
        self.chosen.append(best)
        self._lost = 0 if isinstance(best, int) else self._lost + 1
        if not isinstance(best, int):
            how = (variances_P, directions_PP, token)
            return self._analytic(best, points.values, points.weights, *how), None
        self._num_directions = best
        directions_PC = directions_PP[:, :best]
        # The share of the vectors that holds for chunks they were not made from.
        share = share_that_holds(tried[best], points)
        made = vector_cells(*points[:2], self._num_rows, directions_PC, KMEANS_ROUNDS)
        return Vectors(directions_PC, share * made.rows), share * tried[best]

    def _tried(
        self, points: Points, fold_N: Tensor, token: int, directions_PP: Tensor
    ) -> dict[str | int, Tensor]:
        """Honest vectors of all points, (N, P), of all cells that may be chosen.

        The name of vector cells is the number of their directions: half and double those of the
        previous token are tried, because few average noise out and many tell chunks apart. The
        first fold decides between these, all folds between cells.
        """
        names = ANALYTIC if self._cells == "auto" else ()
        is_short = points.values.numel() <= MANY_NUMBERS or token <= VECTOR_TOKENS
        may_be_vectors = self._cells == "vector" or (is_short and self._lost < LOSSES)
        wanted = self._numbers_of_directions(len(directions_PP)) if may_be_vectors else []
        found = {name: torch.zeros_like(points.values) for name in (*wanted, *names)}
        for fold in sorted(set(fold_N.tolist())):
            is_held_N = fold_N == fold
            held, others = points.part(is_held_N), points.part(~is_held_N)
            for count in wanted if len(others.values) else ():
                directions_PC = directions_PP[:, :count]
                made = vector_cells(*others[:2], self._num_rows, directions_PC, FOLD_ROUNDS)
                found[count][is_held_N] = made.of(held.values)
            if len(wanted) > 1:
                outlooks = {n: self._outlook(held, found[n][is_held_N], token) for n in wanted}
                wanted = [min(outlooks, key=outlooks.__getitem__)]
            others = others if len(others.values) else points
            own = principal_directions(*others[:2])
            for name in names:
                made = self._analytic(name, *others[:2], *own, token)
                found[name][is_held_N] = made.of(held.values)
        return {name: found[name] for name in (*wanted, *names)}

    def _numbers_of_directions(self, most: int) -> list[int]:
        """Numbers of directions that vector cells are tried with."""
        most = min(MAX_DIRECTIONS, most)
        count = min(most, self._num_directions)
        return sorted({max(1, count // 2), count, min(most, 2 * count)})

    def _outlook(self, points: Points, honest_NP: Tensor, token: int) -> float:
        """Mean logarithm of the errors to expect at the budgets that this token is a part of.

        An ideal code of what it leaves stands for the tokens to come: of cells that take off the
        same, those are better that leave it in few directions.
        """
        left_NP = points.values - share_that_holds(honest_NP, points) * honest_NP
        variances_P, _ = principal_directions(left_NP, points.weights)
        ends = [budget for budget in self._budgets if budget >= token]
        bits = (EFFICIENCY * (end - token) * math.log2(self._num_rows) for end in ends)
        errors = (float(variances_P.clamp(max=water_level(variances_P, b)).sum()) for b in bits)
        return sum(math.log(max(error, 1e-30)) for error in errors) / len(ends)

    def _analytic(
        self,
        name: str,
        points_NP: Tensor,
        weights_N: Tensor,
        variances_P: Tensor,
        directions_PP: Tensor,
        token: int,
    ) -> Vectors:
        """Vectors that have too few numbers to learn points by heart."""
        if name == "scalar":
            return scalar_cells(points_NP, weights_N, self._levels)
        how = (points_NP, weights_N, self._num_rows, variances_P, directions_PP)
        return product_cells(*how) if name == "product" else drawn_cells(*how, seed=token)


def _folds(count: int) -> Tensor:
    """Number of the fold of each chunk, (N,)."""
    num_blocks = min(max(count // CHUNKS_PER_BLOCK, FOLDS), FOLDS * BLOCKS_PER_FOLD)
    return torch.arange(count) * num_blocks // count % FOLDS


def _normalized(paths: Paths) -> Points:
    gain_N = gain_of(paths.log_gain[:, 0])
    left_NP = paths.left[:, 0]
    scale = (left_NP.square().sum() / gain_N.square().sum()).sqrt().clamp_min(1e-12)
    return Points(left_NP / (scale * gain_N)[:, None], gain_N.square(), scale)


def share_that_holds(vectors_NP: Tensor, points: Points) -> float:
    """The multiple of the vectors that leaves least of the points."""
    weighted_NP = vectors_NP * points.weights[:, None]
    length = (weighted_NP * vectors_NP).sum().clamp_min(1e-30)
    return float((weighted_NP * points.values).sum() / length)


def _with_honest(paths: Paths, points: Points, table: VectorTable, honest_NP: Tensor) -> Paths:
    """One path a chunk: the ids are those of the table, what is left is that of honest vectors."""
    best = paths.best()
    unit_N = table.scale * gain_of(best.log_gain[:, 0])
    row_N, _ = nearest(points.values @ table.directions, table.rows)
    left_NP = best.left[:, 0] - unit_N[:, None] * honest_NP
    ids = torch.cat([best.ids, row_N[:, None, None]], dim=2)
    return Paths(left_NP[:, None], best.log_gain, ids)


def _gains(paths: Paths, table: VectorTable) -> Tensor:
    """Logarithm of the size of what each id leaves, relative to the mean, (V,).

    It is a line in the logarithm of the vector's own length, and where an id has many chunks its
    own mean.
    """
    row_N = paths.ids[:, 0, -1]
    unit_N = table.scale * gain_of(paths.log_gain[:, 0])
    left_N = paths.left[:, 0].square().sum(dim=1) / unit_N.square()
    size_N = left_N.clamp_min(1e-4 * float(left_N.mean()) + 1e-30).log() / 2
    size_N = size_N - size_N.mean()
    length_V = table.rows.square().sum(dim=1)
    length_V = (length_V + 0.1 * length_V.mean() + 1e-30).log() / 2
    x_N = length_V[row_N] - length_V[row_N].mean()
    slope = ((x_N * size_N).sum() / x_N.square().sum().clamp_min(1e-9)).clamp(0, 2)
    line_V = slope * (length_V - length_V[row_N].mean())
    counts_V = torch.bincount(row_N, minlength=len(line_V))
    sums_V = torch.zeros_like(line_V).index_add_(0, row_N, size_N - line_V[row_N])
    gains_V = line_V + sums_V / (counts_V + CHUNKS_PER_GAIN)
    return gains_V.clamp(-MAX_LOG_GAIN, MAX_LOG_GAIN)
