"""The section of the results page on LeRobot's policies beside the light policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks import record
from benchmarks.control_findings import LEROBOT as NAMES
from benchmarks.control_findings import LEROBOT_RULES, REFERENCE, cells_of, with_all_tokens
from benchmarks.markdown import paragraph, section, table
from benchmarks.report_control import beyond, minutes, success_of_seeds

OURS = ("oat, 2500 steps", "oat", "oat-pow2", "quest", "light-flow")
"""Rows of `control` that stand beside them, with all their tokens."""
CONTROL_RULES = {
    **{theirs: ours for ours, theirs in LEROBOT_RULES.items()},
    "4 steps, blended": "4, blended",
}
"""Rules of the neighbors to those of `control`."""


def neighbors(found: dict[str, Any]) -> str:
    settings, results = found["settings"], found["results"]
    names = [NAMES[kind] for kind in results["trials"]]
    versions = dict.fromkeys(
        t["lerobot"] for kind in results["trials"].values() for t in kind.values()
    )
    return section(
        "LeRobot's policies on the same demonstrations",
        paragraph(
            f"Policies of LeRobot {', '.join(versions)} ({', '.join(names)}) are trained on "
            "MetaWorld's demonstrations from state, with the task one-hot, on one thread for "
            f"{settings['cpu_minutes']:g} minutes of CPU time, further seeds for as many steps as "
            "the first, and act in the episodes of the section on how chunks are executed, "
            f"{settings['episodes']} a task.",
            *our_minutes(),
            "Success is in percent with Wilson's 95 % interval and, where there are several, the "
            "percentages of the seeds; the milliseconds of a chunk were measured beside other "
            f"work. The last column compares with `{REFERENCE}` pair by pair on the same episodes, "
            "as the section on how chunks are executed does.",
            "Beyond LeRobot's defaults, in their favor: a cosine to 0 over the training, "
            "averaged weights, a normalized environment state, learning rates for small "
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


def our_minutes() -> list[str]:
    """How long our policies took, in words, of those whose cells say it."""
    cells = record.read_results("control").get("cells", {}).values()
    timed = [cell for cell in cells if "seconds" in cell and "tokenizer_seconds" in cell]
    sentences = []
    for name in OURS:
        own = [cell for cell in timed if cell["row"] == name]
        if own:
            policy, tokenizer = (
                minutes([cell[key] for cell in own]) for key in ("seconds", "tokenizer_seconds")
            )
            sentences.append(
                f"Ours on `{name}` was trained for {policy} minutes, after {tokenizer} of its "
                "tokenizer."
            )
    if any(" to " in sentence for sentence in sentences):
        sentences.append(
            "Where two times stand, they are the shortest and the longest of several trainings, on "
            "machines of different speed; trainings on one machine share a tokenizer."
        )
    return sentences


def _success(rows: Mapping[str, Any]) -> str:
    """A line for each policy and rule, the seeds together, then ours by the same rules."""
    lines, tasks = [], []
    cells = list(record.read_results("control").get("cells", {}).values())
    for kind, rule in dict.fromkeys(
        (r["kind"], rule) for r in rows.values() for rule in r["rules"]
    ):
        own = [row for row in rows.values() if row["kind"] == kind and rule in row["rules"]]
        found = [row["rules"][rule] for row in own]
        tasks = [task["task"] for task in found[0]["tasks"]]
        lines.append(_line(NAMES[kind], rule, own, found, cells))
    if not lines:
        return ""
    for name in OURS:
        for rule, theirs in CONTROL_RULES.items():
            own = list(cells_of(cells, name, theirs))
            if own:
                found = [with_all_tokens(cell) for cell in own]
                lines.append(_line(f"light, `{name}`", rule, own, found, cells))
    headings = ("policy", "rule", "seeds", "parameters", "steps", "ms", ", ".join(tasks), "mean")
    return table((*headings, f"beyond `{REFERENCE}`"), lines)


def _line(
    name: str,
    rule: str,
    rows: Sequence[Mapping[str, Any]],
    found: Sequence[dict[str, Any]],
    cells: Sequence[dict[str, Any]],
) -> tuple[str, ...]:
    """What a policy reached by a rule.

    Args:
        name: The policy.
        rule: How chunks were executed.
        rows: What was trained, one for each seed.
        found: What each reached.
        cells: Cells of `control`, among them those of the reference.
    """
    by_task = zip(*([task["success"]["rate"] for task in f["tasks"]] for f in found), strict=True)
    reference = [with_all_tokens(c) for c in cells_of(cells, REFERENCE, CONTROL_RULES[rule])]
    return (
        *(name, rule, str(len(rows)), f"{rows[0]['parameters'] / 1e6:.1f}M"),
        "-".join(_ends([row["steps"] for row in rows])),
        f"{fmean(f['latency_ms'] for f in found):.3g}",
        ", ".join(f"{100 * fmean(rates):.0f}" for rates in by_task),
        success_of_seeds(found),
        "" if name == f"light, `{REFERENCE}`" else beyond(found, reference),
    )


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


def _ends(values: list[int]) -> list[str]:
    """The smallest and the largest value, or the only one."""
    return [str(value) for value in dict.fromkeys((min(values), max(values)))]
