"""The README's numbers are those of the results."""

from __future__ import annotations

from typing import Any

from benchmarks import report_readme


def test_the_numbers_of_the_readme_are_the_measured_ones() -> None:
    text = report_readme.README.read_text()
    assert report_readme.render() == text, "python -m benchmarks.report writes them"
    assert text.count("\n- **") == 4


def test_a_flow_head_is_named_with_the_minutes_that_it_took() -> None:
    cells: list[dict[str, Any]] = [
        {"row": "light-flow", "seconds": 3090.0},
        {"row": "oat", "seconds": 1140.0},
        {"row": "oat", "seconds": 2340.0},
        {"row": "oat"},
    ]
    named = report_readme._named(cells, "light-flow")
    assert named.endswith(
        "a quarter of the steps, trained for 51.5 minutes where `oat` took 19.0 to 39.0"
    )
    assert report_readme._named(cells[1:], "light-flow").endswith("a quarter of the steps")
    assert report_readme._named(cells, "oat") == report_readme.LIGHT["oat"]
