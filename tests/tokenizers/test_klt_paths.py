"""The search for tokens, against loops that look at everything."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from oatkit.tokenizers import klt_paths
from oatkit.tokenizers.klt_paths import (
    LOG_GAINS,
    NUM_GROUPS,
    NUM_PATHS,
    Paths,
    VectorTable,
    advance,
    gain_of,
    kept_paths,
    nearest,
    search,
)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def table(num_rows: int, seed: int) -> VectorTable:
    """Vectors along three of five directions."""
    directions = torch.linalg.qr(random(5, 3, seed=seed)).Q
    gains = 0.3 * random(num_rows, seed=seed + 1)
    return VectorTable(directions, random(num_rows, 3, seed=seed + 2), torch.tensor(0.8), gains)


@pytest.mark.parametrize("num_rows", [1, 2, 15, 16, 17, 100])
def test_the_nearest_of_all_rows(num_rows: int) -> None:
    points, rows = random(50, 3), random(num_rows, 3, seed=1)
    row_N, distance_N = nearest(points, rows)
    wanted = torch.cdist(points, rows).square()
    torch.testing.assert_close(row_N, wanted.argmin(dim=1))
    torch.testing.assert_close(distance_N, wanted.amin(dim=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("num_rows", [2, 3, 40])
def test_one_path_takes_the_nearest_vector_every_time(num_rows: int) -> None:
    points, tables = random(20, 5), [table(num_rows, seed) for seed in (10, 20, 30)]
    paths = Paths.start(points)
    for each in tables:
        paths = advance(paths, each, 1)
    for point, left, ids in zip(points, paths.left[:, 0], paths.ids[:, 0], strict=True):
        log_gain = 0.0
        for each, found in zip(tables, ids.tolist(), strict=True):
            vectors = each.scale * math.exp(log_gain) * each.rows @ each.directions.T
            error = (point - vectors).square().sum(dim=1)
            assert error[found] <= error.min() + 1e-5
            point = point - vectors[found]
            log_gain += float(each.gains[found])
        torch.testing.assert_close(left, point, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("num_rows", [2, 3, 5, 40])
def test_several_paths_are_best_first_and_no_worse_than_one(num_rows: int) -> None:
    points, tables = random(60, 5), [table(num_rows, seed) for seed in (10, 20, 30)]
    one = several = Paths.start(points)
    for each in tables:
        one = advance(one, each, 1)
        several = advance(several, each, NUM_PATHS)
        assert several.ids.max() < num_rows
    errors_BM = several.left.square().sum(dim=2)
    greedy_B = one.left[:, 0].square().sum(dim=1)
    assert errors_BM.amin(dim=1).mean() <= greedy_B.mean()
    last = advance(several, tables[0], 1).left[:, 0].square().sum(dim=1)
    assert (last <= errors_BM.amin(dim=1) + 10).all()


@pytest.mark.parametrize("num_rows", [32, 96])
def test_a_path_goes_on_by_the_nearest_vectors_of_its_nearest_groups(num_rows: int) -> None:
    """Groups are stretches of a sixteenth of the ids, however the search orders them."""
    points, each = random(60, 5), table(num_rows, seed=10)
    found = advance(Paths.start(points), each, NUM_PATHS)
    vectors = each.scale * each.rows @ each.directions.T
    errors = (points[:, None] - vectors).square().sum(dim=2).view(60, NUM_GROUPS, -1)
    in_group = errors.argmin(dim=2) + torch.arange(0, num_rows, num_rows // NUM_GROUPS)
    best = errors.amin(dim=2).argsort(dim=1)[:, :NUM_PATHS]
    assert found.ids[..., 0].tolist() == in_group.gather(1, best).tolist()


def test_a_search_in_blocks_is_token_after_token(monkeypatch: pytest.MonkeyPatch) -> None:
    points, tables = random(60, 5), [table(40, seed) for seed in (10, 20, 30, 40)]
    paths = Paths.start(points)
    for token, each in enumerate(tables, start=1):
        paths = advance(paths, each, kept_paths((1, 2, 4), token))
    for size in (1, 7, 1000):
        monkeypatch.setattr(klt_paths, "DISTANCES_PER_BLOCK", size * 40 * NUM_PATHS)
        assert search(points, tables, (1, 2, 4)).tolist() == paths.ids[:, 0].tolist()
    assert search(points[:0], tables, (1, 2, 4)).shape == (0, 4)


def test_a_table_in_half_precision_is_the_same_table() -> None:
    points, each = random(60, 5), table(40, seed=10)
    half = replace(each, rows=each.rows.half())
    full = replace(each, rows=half.rows.float())
    found, wanted = (advance(Paths.start(points), x, 3) for x in (half, full))
    torch.testing.assert_close(found.left, wanted.left)
    torch.testing.assert_close(found.ids, wanted.ids)


def test_paths_meet_at_every_budget() -> None:
    kept = [kept_paths((1, 2, 4, 8), token) for token in range(1, 9)]
    assert kept == [1, 1, NUM_PATHS, 1, NUM_PATHS, NUM_PATHS, NUM_PATHS, 1]


def test_no_gains_ever_make_a_chunk_explode() -> None:
    found = gain_of(torch.tensor([-1000.0, 0.0, 1000.0]))
    torch.testing.assert_close(found, torch.tensor([LOG_GAINS[0], 0.0, LOG_GAINS[1]]).exp())
