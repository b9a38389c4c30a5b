"""What is found about a policy on one of the paper's benchmarks, as it is written to JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oatkit.types.budget import Budget, budget_name
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
    queries: int | None = None
    """How often the policy was asked; None in older records, as in what follows."""
    redrawn: int | None = None
    """Number of these queries that generated their tokens again until they decoded."""
    failed: int | None = None
    """Number of episodes that had no chunk after all attempts; at most as many as the others count
    as solved, since praxis-eval does not say which it counts."""
    error: str | None = None
    """Why the last of these had none."""


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
    command: str = ""
    """Command line that was typed first; empty in older records and where nothing said it."""
    is_paper_row: bool | None = None
    """Whether the paper's tables have a row of this tokenizer, policy and budget; None in older
    records. Only such rows are ranked."""
    schema: str = "oatkit/benchmark-evaluation"
    version: int = 3

    def decoding_lines(self) -> list[str]:
        """Sentences on queries that generated again and on episodes without a chunk; none if there
        were no such, or if the record does not say."""
        name = f"{self.policy} at {budget_name(self.settings['budget'])} on {self.benchmark}"
        queries = sum(part.queries or 0 for part in self.parts)
        redrawn = sum(part.redrawn or 0 for part in self.parts)
        failed = sum(part.failed or 0 for part in self.parts)
        lines = []
        if redrawn:
            lines.append(
                f"{name}: {redrawn} of {queries} queries had to generate their tokens again"
            )
        if failed:
            last = next(part.error for part in reversed(self.parts) if part.failed)
            lines.append(
                f"{name}: {failed} of {queries} queries gave no chunk, and their episodes stood "
                f"still; no more count as solved than the others; the last: {last}"
            )
        return lines


@dataclass(frozen=True)
class BenchmarkRow:
    """A policy at one budget on some benchmarks, as a row of the paper's tables."""

    policy: str
    budget: Budget
    """Number of tokens that were asked for, "auto", or None for all."""
    success: Mapping[str, SuccessRate]
    """Benchmark to success over all of its episodes."""
    means: Mapping[str, float]
    """Benchmark to mean success over its tasks, each counted the same."""
    average: float | None = None
    """Mean over all benchmarks of the table, each counted the same; None where some are missing."""
    rank: float | None = None
    """Mean rank over the benchmarks among rows that the paper has too; None for all other rows, and
    where some benchmarks are missing."""

    @property
    def name(self) -> str:
        if self.budget is None:
            return self.policy
        return f"{self.policy} at {budget_name(self.budget)}"
