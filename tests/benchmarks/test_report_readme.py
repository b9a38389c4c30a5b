"""The README's numbers are those of the results."""

from __future__ import annotations

from benchmarks import report_readme


def test_the_numbers_of_the_readme_are_the_measured_ones() -> None:
    text = report_readme.README.read_text()
    assert report_readme.render() == text, "python -m benchmarks.report writes them"
    assert text.count("\n- **") == 4
