"""The section of the results page on LeRobot's policies beside the light policy."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from benchmarks import record
from benchmarks.markdown import paragraph, section, table
from benchmarks.report_policies import rate
from oatkit.evaluation.success_statistics import success_rate

NAMES = {"act": "ACT", "diffusion": "Diffusion Policy"}
OURS = ("oat", "oat-pow2", "quest")
"""Rows of the lightweight table that stand beside them, with all their tokens."""


def neighbors(found: dict[str, Any]) -> str:
    settings, results = found["settings"], found["results"]
    return section(
        "LeRobot's policies on the same demonstrations",
        paragraph(
            f"ACT and Diffusion Policy of LeRobot {settings['lerobot']} are trained on MetaWorld's "
            "demonstrations from state, with the task one-hot, on one thread for "
            f"{settings['cpu_minutes']:g} minutes of CPU time, about what tokenizer and light "
            "policy take together; they act in the same episodes, "
            f"{settings['episodes']} a task.",
            "Success is in percent, over all seeds, with Wilson's 95 % interval in the mean; the "
            "milliseconds of a chunk were measured beside other work.",
            "Beyond LeRobot's defaults, in their favor: a cosine to 0 by the CPU time that is "
            "over, averaged weights, a normalized environment state, learning rates for small "
            "sizes, and DDIM with 10 steps for the diffusion.",
        ),
        _success(results.get("rows", {})),
        paragraph(
            "Every setting was tried for the CPU seconds below; the one with the smallest error on "
            "held-out demonstrations (raw units) was trained."
        ),
        _trials(results["trials"]),
        script="neighbors",
    )


def _success(rows: dict[str, Any]) -> str:
    """A line for each policy and rule, the seeds together, and our rows at half a chunk."""
    rules = dict.fromkeys((row["kind"], rule) for row in rows.values() for rule in row["rules"])
    if not rules:
        return ""
    lines = []
    tasks: list[str] = []
    for kind, rule in rules:
        own = [r for r in rows.values() if r["kind"] == kind and rule in r["rules"]]
        found = [row["rules"][rule] for row in own]
        tasks = list(found[0]["solved"])
        solved = [value for each in found for task in tasks for value in each["solved"][task]]
        lines.append(
            (
                *(NAMES[kind], rule, str(len(own)), f"{own[0]['parameters'] / 1e6:.1f}M"),
                *("-".join(_ends([row["steps"] for row in own])), f"{found[0]['latency_ms']:.3g}"),
                *(_percent([v for each in found for v in each["solved"][task]]) for task in tasks),
                rate(asdict(success_rate(sum(solved), len(solved)))),
            )
        )
    headings = ("policy", "rule", "seeds", "parameters", "steps", "ms", *tasks, "mean")
    return table(headings, [*lines, *_ours(tasks)])


def _ours(tasks: list[str]) -> list[tuple[str, ...]]:
    """The light policy at half a chunk, as the lightweight table has it."""
    lines = []
    for name, row in record.read_results("policy_table").get("state", {}).items():
        budget = row["budgets"][-1 if row["budgets"][-1]["budget"] != "auto" else -2]
        rates = {t["task"]: t["success"]["rate"] for t in budget["tasks"]}
        if name in OURS and set(rates) == set(tasks):
            lines.append(
                (
                    *(f"light, `{name}`", f"{row['protocol']['execute']} steps", "1"),
                    *(f"{row['parameters'] / 1e6:.1f}M", str(row["steps"])),
                    f"{budget['latency_ms']:.3g}",
                    *(f"{100 * rates[task]:.0f}" for task in tasks),
                    rate(budget["success"]),
                )
            )
    return lines


def _trials(trials: dict[str, Any]) -> str:
    lines = [
        (
            *(NAMES[kind], name, f"{trial['parameters'] / 1e6:.1f}M"),
            *(f"{trial['cpu_s']:.0f}", str(trial["steps"])),
            *(f"{trial['held_out']['mse']:.4f}", f"{trial['held_out']['mae']:.4f}"),
        )
        for kind, tried in trials.items()
        for name, trial in tried.items()
    ]
    headings = ("policy", "setting", "parameters", "CPU seconds", "steps", "squared", "absolute")
    return table(headings, lines)


def _percent(solved: list[int]) -> str:
    return f"{100 * sum(solved) / len(solved):.0f}"


def _ends(values: list[int]) -> list[str]:
    """The smallest and the largest value, or the only one."""
    return [str(value) for value in dict.fromkeys((min(values), max(values)))]
