"""What `oatkit policy eval --benchmark` prints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oatkit.commands.benchmark_output import env_options, render_benchmarks
from oatkit.evaluation.benchmark_statistics import benchmark_rows
from tests.evaluation.test_benchmark_statistics import record


def test_options_of_simulators_are_json_or_text() -> None:
    pairs = ("python_bin=env/bin/python", "size=128", "flip=true", "name=a=b")
    assert env_options(pairs) == {
        "python_bin": "env/bin/python",
        "size": 128,
        "flip": True,
        "name": "a=b",
    }
    with pytest.raises(ValueError, match="--env-option 'size' is no KEY=VALUE"):
        env_options(("size",))


def test_every_task_and_the_average_are_shown() -> None:
    records = [record("p", "vlm-libero", 4, 10, 20)]
    shown = str(render_benchmarks(records, benchmark_rows(records)))
    assert "30.0% (21.9% - 39.6%)" in shown
    assert "all: t1" in shown
    assert "30.0% (21.9% - 39.6%)  all, all 2 tasks\n" in shown


def test_the_means_of_all_suites_are_shown_and_a_task_once() -> None:
    long, goal = (record("p", "vlm-libero", 4, *n).parts[0] for n in ((10, 20), (40,)))
    parts = (replace(long, selector="libero_10"), replace(goal, selector="libero_goal"))
    records = [replace(record("p", "vlm-libero", 4, 0), parts=parts)]
    lines = str(render_benchmarks(records, benchmark_rows(records))).splitlines()
    assert lines[-4].endswith("30.0% (21.9% - 39.6%)  libero_10, all 2 tasks")
    assert lines[-3].endswith("libero_10: t0")
    assert lines[-1].endswith("80.0% (67.0% - 88.8%)  libero_goal, t0")


def test_queries_without_a_chunk_are_said() -> None:
    own = record("p", "vlm-libero", None, 10, 20)
    counted = replace(own.parts[0], queries=40, redrawn=3, failed=2, error="none in 10 attempts")
    own = replace(own, parts=(counted, replace(counted, failed=0, redrawn=0, error=None)))
    shown = str(render_benchmarks([own], benchmark_rows([own])))
    assert (
        "p at all on vlm-libero: 3 of 80 queries had to generate their tokens again\n"
        "p at all on vlm-libero: 2 of 80 queries gave no chunk, and their episodes stood still; "
        "no more count as solved than the others; the last: none in 10 attempts"
    ) in shown
