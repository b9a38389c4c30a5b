"""The names of simulators and benchmarks that an option may take, known without a network.

They stand apart from the other choices because an evaluation of a policy on another machine runs
where torch is not installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tyro.extras import literal_type_from_choices

from oatkit.envs.simulator_table import SIMULATORS
from oatkit.evaluation.benchmark_presets import BENCHMARK_PRESETS

if TYPE_CHECKING:
    SimulatorName = str
    BenchmarkName = str
else:
    SimulatorName = literal_type_from_choices(SIMULATORS)
    BenchmarkName = literal_type_from_choices(BENCHMARK_PRESETS)
