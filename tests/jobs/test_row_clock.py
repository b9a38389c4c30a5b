"""The time that the rest of a table takes."""

from __future__ import annotations

import pytest
from rich.console import Console

from oatkit.jobs import row_clock
from oatkit.jobs.row_clock import RowClock


def test_the_mean_of_the_rows_that_were_made_times_those_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([0.0, 120.0, 180.0, 240.0])
    monkeypatch.setattr(row_clock.time, "monotonic", lambda: next(times))
    console = Console(record=True, width=100)
    clock = RowClock(console)
    clock.made_one(3)
    clock.made_one(1)
    clock.made_one(0)
    assert console.export_text().splitlines() == [
        "about 6 minutes for the 3 rows left",
        "about 1.5 minutes for the row left",
    ]


def test_less_than_a_minute_is_not_worth_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 5.0])
    monkeypatch.setattr(row_clock.time, "monotonic", lambda: next(times))
    console = Console(record=True)
    RowClock(console).made_one(10)
    assert console.export_text() == ""
