"""Averages and ranks of tables that are made again: the paper's own numbers give its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oatkit.jobs import paper_numbers as paper
from oatkit.jobs.paper_tables import paper_table
from oatkit.jobs.reproduction_summary import summarize_table
from oatkit.types import ReproducedNumber, Reproduction, SummarizedRow


def own_numbers(table: str) -> Reproduction:
    """A record in which every row has what the paper printed."""
    numbers = tuple(
        ReproducedNumber(row, None if k == "all" else int(k), place, v, v - 1, v + 1, v, 1, 1.0)
        for (row, k), columns in paper_table(table).numbers.items()
        for place, v in columns.items()
    )
    return Reproduction(table, {}, {}, numbers)


def by_name(record: Reproduction) -> dict[str, SummarizedRow]:
    return {row.name: row for row in summarize_table(record).rows}


def test_ranks_of_each_backbone_are_the_printed_ones() -> None:
    rows = by_name(own_numbers("vlm-policies"))
    assert len(rows) == 28
    for row in rows.values():
        assert row.rank == row.paper_rank == pytest.approx(row.printed_rank, abs=0.0501)
        assert (row.num_ranked, row.num_rows) == (14, 14)
    assert rows["paligemma2, oat at 16"].rank == pytest.approx(2.875)
    assert rows["qwen3-vl, oat at 16"].rank == pytest.approx(1.5)


def test_printed_ranks_of_the_light_table_are_over_the_robot_too() -> None:
    """Its six columns give what is printed; the four that can be run give something else."""
    successes = {
        **{("bin", "all"): (4, 8), ("fast", "all"): (8, 6), ("quest", "all"): (11, 8)},
        **{("oat", "1"): (7, 3), ("oat", "2"): (11, 9), ("oat", "4"): (13, 12)},
        **{("oat", "8"): (16, 16)},
    }
    record = own_numbers("light-policies")
    robot = tuple(
        ReproducedNumber(row, None if k == "all" else int(k), place, v, 0, 20, v, 1, 1.0)
        for (row, k), values in successes.items()
        for place, v in zip(paper.RANKED_LIGHT[4:], values, strict=True)
    )
    whole = replace(record, numbers=(*record.numbers, *robot))
    for row in by_name(whole).values():
        assert row.rank == pytest.approx(row.printed_rank, abs=0.05)
    summary = summarize_table(record)
    assert summary.columns == paper.LIGHT_BENCHMARKS
    assert summary.printed_columns == paper.RANKED_LIGHT
    (oat_1,) = (row for row in summary.rows if row.name == "oat at 1")
    assert (oat_1.rank, oat_1.paper_rank, oat_1.printed_rank) == (5.75, 5.75, 6.0)


def test_rows_that_the_paper_does_not_have_shift_no_rank() -> None:
    record = own_numbers("light-policies")
    before = by_name(record)
    best = [replace(n, row="klt", value=99.0, paper=None) for n in record.numbers if n.budget == 8]
    auto = [replace(n, row="oat", budget="auto", value=98.0, paper=None) for n in best]
    after = by_name(replace(record, numbers=(*record.numbers, *best, *auto)))
    assert {name: after[name] for name in before} == before
    assert (after["klt at 8"].rank, after["klt at 8"].num_ranked) == (None, 0)
    assert after["klt at 8"].average == 99
    assert after["oat at auto"].rank is None


def test_temperatures_are_ranked_apart() -> None:
    record = own_numbers("light-policies")
    cold = tuple(replace(n, temperature=0.0, value=n.value + 0.01) for n in record.numbers)
    rows = summarize_table(replace(record, numbers=(*record.numbers, *cold))).rows
    found = {(row.name, row.temperature): row.rank for row in rows}
    before = by_name(record)
    assert found == {(n, t): before[n].rank for n in before for t in (0.0, 1.0)}


def test_the_papers_rank_is_among_the_rows_that_were_made() -> None:
    record = own_numbers("light-policies")
    some = tuple(n for n in record.numbers if n.row in ("bin", "fast"))
    rows = by_name(replace(record, numbers=some))
    assert (rows["bin"].rank, rows["bin"].paper_rank) == (1.25, 1.25)
    assert (rows["bin"].num_ranked, rows["bin"].num_rows) == (2, 7)


def test_columns_and_seeds_count_the_same_in_averages() -> None:
    record = own_numbers("light-policies")
    best = by_name(record)["oat at 8"]
    assert best.rank == 1
    assert best.average == best.paper_average == pytest.approx((56.3 + 73.1 + 24.4 + 54.6) / 4)
    worse = tuple(replace(number, seed=1, value=number.value - 2) for number in record.numbers)
    both = by_name(replace(record, numbers=(*record.numbers, *worse)))
    assert both["oat at 8"].average == pytest.approx(best.average - 1)
    assert summarize_table(replace(record, numbers=record.numbers[:1])).rows == ()
    part = by_name(replace(record, numbers=record.numbers[:-1]))["oat at 8"]
    assert (part.average, part.rank, part.paper_rank) == (None, None, None)
