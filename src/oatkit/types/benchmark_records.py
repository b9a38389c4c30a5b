"""What is found about a policy on one of the paper's benchmarks, as it is written to JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oatkit.types.policy_records import SuccessRate, TaskResult


@dataclass(frozen=True)
class BenchmarkPart:
    """One evaluation of praxis-eval."""

    selector: str
    """Task or suite, as praxis-eval calls it."""
    tasks: tuple[TaskResult, ...]
    """Results of each task in it."""
    success: SuccessRate
    """Success over all episodes of the part."""


@dataclass(frozen=True)
class BenchmarkEvaluation:
    """What `evaluate_benchmark` finds."""

    policy: str
    benchmark: str
    """Name of the preset."""
    settings: dict[str, Any]
    """The protocol: what decides an episode, and so must be the same when an evaluation goes on."""
    versions: dict[str, str]
    parts: tuple[BenchmarkPart, ...] = ()
    mean_success: float | None = None
    """Mean over the tasks, each counted the same; None before there are any."""
    schema: str = "oatkit/benchmark-evaluation"
    version: int = 1
