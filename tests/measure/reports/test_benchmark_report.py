"""The page of an evaluation on the paper's benchmarks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from oatkit.evaluation.benchmark_statistics import benchmark_rows
from oatkit.measure.reports.benchmark_report import success_words, write_benchmark_report
from tests.evaluation.test_benchmark_statistics import record


def test_rows_tasks_and_the_command_are_on_the_page(tmp_path: Path) -> None:
    settings = {"execute": 16, "sampling": {"temperature": 0.0}}
    own, other = (record(name, "light-libero", 8, *n) for name, n in (("a", (20, 30)), ("b", (5,))))
    own, other = (replace(r, settings={**r.settings, **settings}) for r in (own, other))
    own = replace(own, command="oatkit policy eval a --benchmark light-libero")
    page = write_benchmark_report([own, other], benchmark_rows([own, other]), tmp_path).read_text()
    assert "a at 8 solves, in percent with 95 % intervals, 50.0 (40 - 60) on light-libero." in page
    assert "16 steps of a chunk executed, temperature 0." in page
    assert "<td>b at 8</td><td>10.0 (4 - 21)</td><td>10.0</td><td>2.0</td>" in page
    assert "light-libero, task by task" in page
    assert "light-libero, part by part" in page
    assert "<td>a at 8</td><td>all</td><td>2</td><td>50.0 (40 - 60)</td>" in page
    assert own.command in page
    assert success_words(own.parts[0].tasks[0].success) == "40.0 (28 - 54)"
