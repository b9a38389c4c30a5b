"""Ways to fit and to encode `klt`, on few chunks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from benchmarks import klt_variants as benchmark
from benchmarks import record, report
from oatkit.tokenizers import klt_cells
from oatkit.tokenizers.klt import Klt, KltConfig
from oatkit.tokenizers.klt_paths import nearest
from tests.tokenizers.small_tokenizers import clusters


def test_ways_are_measured_once_and_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = partial(KltConfig, levels=(4, 4))
    monkeypatch.setattr(benchmark, "KltConfig", config)
    names = ["as it is", "16 paths", "cells chosen by their own error, one fold"]
    ways = {name: benchmark.WAYS[name] for name in names}
    monkeypatch.setattr(benchmark, "WAYS", ways)
    benchmark.main(["--data", "pusht=data", "--only", *names[:2]])
    first = record.read_results("klt_variants")["pusht"]
    assert list(first) == names[:2]
    assert first["as it is"]["cells"] == first["16 paths"]["cells"]
    assert first["as it is"]["mse"] != first["16 paths"]["mse"]
    benchmark.main(["--data", "pusht=data"])
    rows = record.read_results("klt_variants")["pusht"]
    assert list(rows) == names
    assert rows["as it is"] == first["as it is"], "what is there stays"
    assert len(rows[names[2]]["cells"]) == 16
    assert "| 16 paths |" in report.section("klt_variants")


def test_drawn_chunks_have_the_moments_of_the_training_chunks_and_an_ideal_code_to_compare_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk_BTA = torch.randn(4000, 4, 2, generator=torch.Generator().manual_seed(1)).cumsum(1) + 3
    drawn = benchmark.gaussian_chunks(benchmark.Chunks(walk_BTA, walk_BTA[:3000]))
    assert [len(part) for part in drawn] == [4000, 3000]
    for part in drawn:
        torch.testing.assert_close(part.mean(0), walk_BTA.mean(0), atol=0.15, rtol=0)
        covariances = (torch.cov(each.flatten(1).T) for each in (part, walk_BTA))
        torch.testing.assert_close(*covariances, atol=0.4, rtol=0)

    monkeypatch.setattr(benchmark, "KltConfig", partial(KltConfig, levels=(4, 4)))
    name = "as it is, on Gaussian chunks"
    benchmark.main(["--data", "pusht=data", "--only", name])
    row = record.read_results("klt_variants")["pusht"][name]
    assert all(ideal < error for ideal, error in zip(row["gaussian"], row["mse"], strict=True))
    ratio = row["mse"][0] / row["gaussian"][0]
    assert f"| {name} | {ratio:.2f} |" in report.section("klt_variants")


def test_rows_that_no_point_uses_are_given_to_where_the_error_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(benchmark, "HORIZON", 4)
    monkeypatch.setattr(benchmark, "KltConfig", partial(KltConfig, levels=(4, 4)))
    points_NP = clusters(400, seed=0).flatten(1)
    how = (points_NP, torch.ones(400), (6, 6))
    plain = klt_cells.scalar_cells(*how)
    given = benchmark.where_error_is(klt_cells.scalar_cells)(*how)
    row_N, again_N = (nearest(points_NP @ made.directions, made.rows)[0] for made in (plain, given))
    assert len({*row_N.tolist()}) < len({*again_N.tolist()})
    left = [float((points_NP - made.of(points_NP)).square().mean()) for made in (plain, given)]
    assert left[1] < left[0]

    way = benchmark.WAYS["unused rows of all cells where the error is"]
    _, facts = benchmark.fit(way, points_NP.view(400, 4, 2))
    assert len(facts["cells"]) == 16


def test_tables_that_are_fitted_again_leave_less_of_what_they_were_fitted_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the ids as they were: new ones may be of other chunks."""
    chunks = clusters(600, seed=0)
    codec = Klt(KltConfig(4, 2, num_tokens=4, levels=(4, 4), cells="drawn"))
    codec.fit(lambda: iter([chunks]))
    tokens = codec.encode(chunks)

    def errors_at_budgets() -> list[float]:
        decoded = (codec.decode(tokens.prefix(budget)) for budget in codec.budgets)
        return [float((each - chunks).square().mean()) for each in decoded]

    before = errors_at_budgets()
    benchmark.fit_together(codec, chunks)
    after = errors_at_budgets()
    assert sum(a / b for a, b in zip(after, before, strict=True)) < len(before)
    assert after[-1] < before[-1]

    monkeypatch.setattr(benchmark, "CHUNKS_BEFORE", 1e9)
    rows = codec.rows.clone()
    benchmark.fit_together(codec, chunks)
    assert F.mse_loss(codec.rows.float(), rows.float()) < 1e-9, "nothing moves them then"
