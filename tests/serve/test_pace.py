from __future__ import annotations

import pytest

from oatkit.serve.latency_table import Pace


@pytest.fixture
def pace() -> Pace:
    pace = Pace(2, (1, 2, 4, 8))
    pace.table_ms = {(n, b): 10.0 * n + b for n in (1, 2) for b in (1, 2, 4, 8)}
    return pace


def test_every_batch_size_and_budget_is_measured() -> None:
    pace, seen = Pace(2, (1, 4)), set()
    pace.measure(lambda size, budget: seen.add((size, budget)))
    assert set(pace.table_ms) == seen == {(1, 1), (1, 4), (2, 1), (2, 4)}
    whole = Pace(1, ())
    whole.measure(lambda size, budget: None)
    assert set(whole.table_ms) == {(1, None)}


def test_the_goal_is_the_largest_budget_that_fits(pace: Pace) -> None:
    assert [pace.goal(1, None, ms) for ms in (5, 11, 12, 17.9, 18)] == [1, 1, 2, 4, 8]
    assert pace.goal(2, None, 18) == 1, "a larger batch takes longer"
    assert [pace.goal(1, 3, ms) for ms in (12, 14)] == [2, 3], "3 takes as long as 4"
    assert pace.goal(1, 1, 1000) == 1


def test_a_slower_machine_is_noticed_at_once_and_forgotten_slowly(pace: Pace) -> None:
    for _ in range(10):
        pace.note(1, 8, 36.0)
    assert pace.expected_ms(1, 8) == pytest.approx(36, rel=0.01)
    assert pace.goal(1, None, 22) == 1
    pace.note(1, 8, 18.0)
    assert pace.expected_ms(1, 8) > 34
    for _ in range(400):
        pace.note(1, 8, 18.0)
    assert pace.expected_ms(1, 8) == pytest.approx(18, rel=0.01)
