"""How experts and speed are measured."""

from __future__ import annotations

import time

from benchmarks.robosuite_experts import measure_expert, rate
from tests.envs.robosuite_install import skip_without_robosuite


def test_a_rate_is_of_cpu_time() -> None:
    assert rate(lambda: time.sleep(0.01), count=3) > 200, "sleep costs no CPU time"
    assert rate(lambda: sum(range(200_000)), count=3) < 10_000


def test_an_expert_is_measured() -> None:
    skip_without_robosuite()
    row = measure_expert("lift", episodes=2)
    assert (row["successes"], row["episodes"]) == (2, 2)
    assert 15 < row["steps"][0] <= row["steps"][2] < 60
