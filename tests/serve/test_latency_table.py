"""How long predictions take, and what fits before a deadline."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from oatkit.serve.latency_table import LatencyTable, deadline_budgets
from tests.serve.slow import make_policy


@pytest.fixture
def table() -> LatencyTable:
    table = LatencyTable(2, (1, 2, 4, 8))
    table.table_ms = {(n, b): 10.0 * n + b for n in (1, 2) for b in (1, 2, 4, 8)}
    return table


def test_every_batch_size_and_budget_is_measured() -> None:
    table, seen = LatencyTable(2, (1, 4)), set()
    table.measure(lambda size, budget: seen.add((size, budget)))
    assert set(table.table_ms) == seen == {(1, 1), (1, 4), (2, 1), (2, 4)}
    whole = LatencyTable(1, ())
    whole.measure(lambda size, budget: None)
    assert set(whole.table_ms) == {(1, None)}


def test_doubling_sizes_are_timed_and_others_lie_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row takes 10 ms, and a budget as many times as long; every size runs, timed or not."""
    table, runs, now = LatencyTable(6, (1, 4)), Counter[tuple[int, int | None]](), [0.0]

    def predict(size: int, budget: int | None) -> None:
        runs[size, budget] += 1
        now[0] += 0.01 * size * (budget or 0)

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    table.measure(predict)
    assert table.timed_sizes == (1, 2, 4, 6)
    assert table.other_sizes == (3, 5)
    assert {size for (size, _), count in runs.items() if count == 1} == {3, 5}
    assert table.table_ms == pytest.approx({(n, b): 10.0 * n * b for n, b in runs})


def test_a_budget_takes_no_longer_than_a_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """While budget 2 was measured, the machine did something else."""
    table, now = LatencyTable(1, (1, 2, 4)), [0.0]
    took_s = {1: 0.001, 2: 0.05, 4: 0.004}

    def predict(size: int, budget: int | None) -> None:
        now[0] += took_s[budget or 0]

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    table.measure(predict)
    assert table.table_ms == pytest.approx({(1, 1): 1.0, (1, 2): 4.0, (1, 4): 4.0})


def test_the_goal_is_the_largest_budget_that_fits(table: LatencyTable) -> None:
    assert [table.largest_budget(1, None, ms) for ms in (5, 11, 12, 17.9, 18)] == [1, 1, 2, 4, 8]
    assert table.largest_budget(2, None, 18) == 1, "a larger batch takes longer"
    assert [table.largest_budget(1, 3, ms) for ms in (12, 14)] == [2, 3], "3 takes as long as 4"
    assert table.largest_budget(1, 1, 1000) == 1


def test_more_rows_than_were_measured_take_as_many_times_as_long(table: LatencyTable) -> None:
    assert [table.expected_ms(rows, 2) for rows in (2, 3, 6)] == [22, 33, 66]


def test_a_slower_machine_is_noticed_at_once_and_forgotten_slowly(table: LatencyTable) -> None:
    for _ in range(10):
        table.add_prediction(1, 8, 36.0)
    assert table.expected_ms(1, 8) == pytest.approx(36, rel=0.01)
    assert table.largest_budget(1, None, 22) == 1
    table.add_prediction(1, 8, 18.0)
    assert table.expected_ms(1, 8) > 34
    for _ in range(400):
        table.add_prediction(1, 8, 18.0)
    assert table.expected_ms(1, 8) == pytest.approx(18, rel=0.01)


def test_only_what_can_stop_early_has_budgets_for_deadlines(tmp_path: Path) -> None:
    ordered, fixed = (make_policy(tmp_path / kind, kind) for kind in ("oat-pow2", "quest"))
    assert deadline_budgets(ordered) == (1, 2, 4, 8)
    assert deadline_budgets(fixed) == ()
