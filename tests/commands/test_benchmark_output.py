"""What `oatkit policy eval --benchmark` prints."""

from __future__ import annotations

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
