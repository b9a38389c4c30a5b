"""Ways to fit and to encode `klt` that were considered: what each leaves of held-out episodes.

    python -m benchmarks.klt_variants --data pusht=PATH cr5=PATH ... [--only "16 paths" ...]

Each row changes one thing of the first. Some have cells of one way alone, with and without giving
rows that no chunk uses to where the error is; some fit all tables again together; the last have
other chunks, drawn from a Gaussian, of which the ideal code is known exactly. Rows that were
measured before stay, unless named.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

import oatkit
from benchmarks.record import read_results, write_result
from oatkit.data import Normalizer
from oatkit.measure.encoded_chunks import chunks_to_measure
from oatkit.measure.gaussian import eigenvalues, gaussian_distortion
from oatkit.tokenizers import klt_cells, klt_fit
from oatkit.tokenizers.klt import Klt, KltConfig
from oatkit.tokenizers.klt_cells import Vectors
from oatkit.tokenizers.klt_fit import CellsName, Points, TableFitter
from oatkit.tokenizers.klt_paths import NUM_PATHS, gain_of, nearest

NAME = "klt_variants"
SEED = 0
HORIZON = 32
CHUNKS_BEFORE = 4
"""Chunks that the row as it was counts for when tables are fitted again."""


class ChosenAlone(TableFitter):
    """Cells are chosen by what this token alone leaves."""

    def _outlook(self, points: Points, honest_NP: Tensor, token: int) -> float:
        left_NP = points.values - klt_fit.share_that_holds(honest_NP, points) * honest_NP
        return float((left_NP.square().sum(dim=1) * points.weights).sum())


class ChosenAloneOnOneFold(ChosenAlone):
    """The same on a quarter of the chunks alone."""

    def _outlook(self, points: Points, honest_NP: Tensor, token: int) -> float:
        is_held_N = self.fold_N == 0
        if len(points.values) != len(is_held_N):  # it is a fold
            return super()._outlook(points, honest_NP, token)
        return super()._outlook(points.part(is_held_N), honest_NP[is_held_N], token)

    def _tried(self, points: Points, fold_N: Tensor, *how: Any) -> dict[str | int, Tensor]:
        self.fold_N = fold_N
        return super()._tried(points, fold_N, *how)


def where_error_is(make: Callable[..., Vectors]) -> Callable[..., Vectors]:
    """The same cells, but rows that no point is nearest to become the points they leave most of."""

    def made(points_NP: Tensor, weights_N: Tensor, *how: Any, **more: Any) -> Vectors:
        directions_PC, rows_VC = make(points_NP, weights_N, *how, **more)
        points_NC = points_NP @ directions_PC
        row_N, distance_N = nearest(points_NC, rows_VC)
        is_used_V = torch.bincount(row_N, minlength=len(rows_VC)) > 0
        unused = torch.nonzero(~is_used_V).flatten()[: len(points_NP)]
        far = (distance_N * weights_N).topk(len(unused)).indices
        return Vectors(directions_PC, rows_VC.index_copy(0, unused, points_NC[far]))

    return made


@dataclass(frozen=True)
class Way:
    """How tables are fitted, and with how many paths chunks are encoded.

    Attributes:
        fitter: What makes the tables.
        cells: How tables are made.
        rounds: How often all tables are then fitted again, each given the others.
        paths: Number of paths.
        constants: Module and name of constants, or functions, in place of which others stand.
        is_drawn: Whether chunks are drawn from a Gaussian of the training chunks' mean and
            covariance, as many as there are.
    """

    fitter: type[TableFitter] = TableFitter
    cells: CellsName = "auto"
    rounds: int = 0
    paths: int = NUM_PATHS
    constants: tuple[tuple[ModuleType, str, Any], ...] = ()
    is_drawn: bool = False


MEAN_LENGTHS = (klt_cells, "LENGTH_CHANGE", (1.0, 1.0))
SCALAR = (klt_fit, "scalar_cells", where_error_is(klt_cells.scalar_cells))
PRODUCT = (klt_fit, "product_cells", where_error_is(klt_cells.product_cells))
DRAWN = (klt_fit, "drawn_cells", where_error_is(klt_cells.drawn_cells))
WAYS = {
    "as it is": Way(),
    "1 path": Way(paths=1),
    "8 paths": Way(paths=8),
    "16 paths": Way(paths=16),
    "cells chosen by their own error, all folds": Way(ChosenAlone),
    "cells chosen by their own error, one fold": Way(ChosenAloneOnOneFold),
    "vector cells without a margin": Way(constants=((klt_fit, "MARGIN", 0.0),)),
    "drawn vectors as they are drawn": Way(constants=((klt_cells, "GAUSSIAN_ROUNDS", 0),)),
    "drawn vectors with the lengths of means": Way(constants=(MEAN_LENGTHS,)),
    "scalar cells": Way(cells="scalar"),
    "scalar cells, unused rows where the error is": Way(cells="scalar", constants=(SCALAR,)),
    "product cells": Way(cells="product"),
    "product cells, unused rows where the error is": Way(cells="product", constants=(PRODUCT,)),
    "unused rows of all cells where the error is": Way(constants=(SCALAR, PRODUCT, DRAWN)),
    "all tables fitted again together, 1 round": Way(rounds=1),
    "all tables fitted again together, 3 rounds": Way(rounds=3),
    "as it is, on Gaussian chunks": Way(is_drawn=True),
    "16 paths, on Gaussian chunks": Way(paths=16, is_drawn=True),
}


class Chunks(NamedTuple):
    """Normalized chunks, (N, T, A)."""

    train: Tensor
    held_out: Tensor


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", required=True, metavar="NAME=PATH")
    parser.add_argument("--only", nargs="*", default=[], choices=list(WAYS))
    args = parser.parse_args(argv)
    for each in args.data:
        data, _, path = each.partition("=")
        known = read_results(NAME).get(data, {})
        wanted = args.only or [name for name in WAYS if name not in known]
        rows = known | measure(Path(path), wanted)
        found = {name: rows[name] for name in WAYS if name in rows}
        results = read_results(NAME) | {data: found}
        write_result(NAME, seed=SEED, settings={"horizon": HORIZON}, results=results)


def measure(path: Path, names: list[str]) -> dict[str, Any]:
    """Rows of a dataset; ways that are fitted alike are fitted once."""
    real = open_chunks(path)
    fitted: dict[Way, tuple[Klt, dict[str, Any]]] = {}
    rows = {}
    for name in names:
        print(f"{path.name}: {name}", flush=True)
        way = WAYS[name]
        chunks = gaussian_chunks(real) if way.is_drawn else real
        alike = replace(way, paths=NUM_PATHS, rounds=0)
        if alike not in fitted:
            fitted[alike] = fit(alike, chunks.train)
        codec, facts = copy.deepcopy(fitted[alike])
        start = time.process_time()
        for _ in range(way.rounds):
            fit_together(codec, chunks.train)
        facts["processor_s"] = round(facts["processor_s"] + time.process_time() - start, 1)
        codec.config = replace(codec.config, paths=way.paths)
        ideal = gaussian_errors(codec, chunks.held_out)
        rows[name] = {"mse": errors(codec, chunks.held_out), "gaussian": ideal, **facts}
    return rows


def open_chunks(path: Path) -> Chunks:
    """Chunks of the episodes that `benchmarks.tokenizer_rate_distortion` fits and measures on."""
    train_set, held_out = oatkit.open_dataset(path).split(0.1, seed=0)
    normalizer = Normalizer.fit(train_set.action_statistics(), "min_max")
    train = train_set.chunks(HORIZON)
    train_BTA = train.actions(np.arange(len(train)))[0]
    held_out_BTA, *_ = chunks_to_measure(held_out, HORIZON)
    both = (torch.from_numpy(normalizer.normalize(each)) for each in (train_BTA, held_out_BTA))
    return Chunks(*both)


def gaussian_chunks(real: Chunks) -> Chunks:
    """As many chunks, independent of each other, from a Gaussian fitted to the training chunks."""
    flat_BD = real.train.flatten(1).double()
    mean_D = flat_BD.mean(0)
    variances_D, directions_DD = torch.linalg.eigh(torch.cov(flat_BD.T, correction=0))
    generator = torch.Generator().manual_seed(SEED)

    def draw(like_BTA: Tensor) -> Tensor:
        size = (len(like_BTA), len(mean_D))
        noise_BD = torch.randn(size, generator=generator, dtype=torch.float64)
        flat_BD = mean_D + (noise_BD * variances_D.clamp(min=0).sqrt()) @ directions_DD.T
        return flat_BD.view_as(like_BTA).to(like_BTA.dtype)

    return Chunks(draw(real.train), draw(real.held_out))


def gaussian_errors(codec: Klt, chunks_BTA: Tensor) -> list[float]:
    """What an ideal code of a Gaussian source with the chunks' covariance leaves at each budget."""
    spectrum = eigenvalues(chunks_BTA.numpy())
    bits = math.log2(codec.vocab_size)
    return [gaussian_distortion(spectrum, bits * budget) for budget in codec.budgets]


def fit(way: Way, chunks_BTA: Tensor) -> tuple[Klt, dict[str, Any]]:
    """A codec, and what was seen while it was fitted."""
    made: list[TableFitter] = []

    def watched(*args: Any) -> TableFitter:
        made.append(way.fitter(*args))
        return made[0]

    codec = Klt(KltConfig(HORIZON, chunks_BTA.shape[2], cells=way.cells))
    codec.fitter = watched
    start = time.process_time()
    with ExitStack() as changed:
        for module, name, value in way.constants:
            changed.enter_context(patch.object(module, name, value))
        codec.fit(lambda: iter([chunks_BTA]))
    seconds = time.process_time() - start
    return codec, {"processor_s": round(seconds, 1), "cells": made[0].chosen}


@torch.inference_mode()
def fit_together(codec: Klt, chunks_BTA: Tensor) -> None:
    """Move every row, table after table, to what all other tokens leave of its chunks.

    Ids, scales and gains stay. A token is a part of all budgets from its own on: each of these
    counts by the inverse of its error.
    """
    chunks_ND = klt_fit.thinned(lambda: iter([chunks_BTA]))
    ids_NK = codec.encode(chunks_ND.view(-1, *chunks_BTA.shape[1:])).ids
    points_NP = (chunks_ND - codec.mean) @ codec.basis
    slot_K = torch.arange(codec.max_tokens)
    gains_NK = codec.gains[slot_K, ids_NK]
    scales_NK = codec.scales * gain_of(gains_NK.cumsum(dim=1) - gains_NK)

    def vectors(slot: int) -> Tensor:
        rows_NC = codec.rows[slot, ids_NK[:, slot]].float()
        return scales_NK[:, slot, None] * (rows_NC @ codec.directions[slot].T)

    left, summed_NP = {}, torch.zeros_like(points_NP)
    for slot in range(codec.max_tokens):
        summed_NP = summed_NP + vectors(slot)
        if slot + 1 in codec.budgets:
            left[slot + 1] = points_NP - summed_NP
    for slot in range(codec.max_tokens):
        before_NP, id_N, scale_N = vectors(slot), ids_NK[:, slot], scales_NK[:, slot]
        own = [budget for budget in codec.budgets if budget > slot]
        weights = torch.tensor([1 / max(float(left[b].square().mean()), 1e-30) for b in own])
        weights = weights / weights.sum()
        left_NP = sum(w * left[b] for w, b in zip(weights, own, strict=True))
        wanted_NC = scale_N[:, None] * (left_NP @ codec.directions[slot])
        change_VC = torch.zeros_like(codec.rows[slot], dtype=torch.float32)
        change_VC.index_add_(0, id_N, wanted_NC)
        counts_V = torch.zeros(codec.vocab_size).index_add_(0, id_N, scale_N.square())
        counts_V += CHUNKS_BEFORE * scale_N.square().mean()
        codec.rows[slot] += (change_VC / counts_V[:, None]).to(codec.rows.dtype)
        change_NP = vectors(slot) - before_NP
        for budget in own:
            left[budget] = left[budget] - change_NP


@torch.inference_mode()
def errors(codec: Klt, chunks_BTA: Tensor) -> list[float]:
    """Mean squared error at each budget."""
    tokens = codec.encode(chunks_BTA)
    decoded = (codec.decode(tokens.prefix(budget)) for budget in codec.budgets)
    return [float((each_BTA - chunks_BTA).double().square().mean()) for each_BTA in decoded]


if __name__ == "__main__":
    main()
