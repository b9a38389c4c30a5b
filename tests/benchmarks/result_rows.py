"""Rows of results as the benchmarks write them, of numbers that a test chooses."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from oatkit.evaluation.success_statistics import success_rate


def control_cell(
    row: str, seed: int, successes: dict[int, int], tokenizer_steps: int | None = 8000
) -> dict[str, Any]:
    """A cell of `benchmarks.control` under the paper's protocol, with 200 episodes a budget."""
    rates = [
        {"budget": budget, "success": asdict(success_rate(number, 200))}
        | {"calls": float(budget), "tokens": float(budget)}
        for budget, number in successes.items()
    ]
    made = {"steps": 2500, "tokenizer_steps": tokenizer_steps, "episodes": 50}
    return {"row": row, "seed": seed, "rule": "half", "budgets": rates, **made}


def tasks(**counts: tuple[int, int]) -> dict[str, Any]:
    """Results of a budget: task to successes and episodes."""
    rates = {task: asdict(success_rate(*count)) for task, count in counts.items()}
    total = success_rate(*(sum(n) for n in zip(*counts.values(), strict=True)))
    shown = [{"task": task, "success": rate} for task, rate in rates.items()]
    return {"tasks": shown, "success": asdict(total)}
