from __future__ import annotations

from typing import get_args

from oatkit.commands.evaluation_choices import BenchmarkName, SimulatorName
from oatkit.envs.simulator_table import SIMULATORS
from oatkit.evaluation.benchmark_presets import BENCHMARK_PRESETS


def test_choices_are_the_names_of_a_table() -> None:
    assert get_args(SimulatorName) == tuple(SIMULATORS)
    assert get_args(BenchmarkName) == tuple(BENCHMARK_PRESETS)
