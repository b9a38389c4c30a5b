"""The section of the results page on a network that regresses chunks."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from benchmarks.markdown import paragraph, section, table
from benchmarks.report_control import success_of_seeds


def regression(record: dict[str, Any]) -> str:
    rows = list(record["results"].values())
    first = rows[0]
    lines = []
    for name in dict.fromkeys(name for row in rows for name in row["rules"]):
        found = [row["rules"][name] for row in rows if name in row["rules"]]
        by_task = zip(
            *([task["success"]["rate"] for task in f["tasks"]] for f in found), strict=True
        )
        tasks = ", ".join(f"{100 * fmean(rates):.0f}" for rates in by_task)
        lines.append((name, success_of_seeds(found), tasks))
    return section(
        "A plain network that regresses chunks",
        paragraph(
            "What tokens are measured against: residual layers read the state of one frame and the "
            "task and predict all 32 actions at once by their mean absolute error "
            f"({first['parameters']:,} parameters, {first['steps']:,} steps of "
            f"{first['batch_size']} samples, {fmean(row['seconds'] for row in rows):.0f} seconds "
            "on one core beside other work). It has no prefixes, no draws and no answer where "
            "demonstrations do different things in one place, which these scripted experts never "
            "do. Demonstrations, goals and episodes are those of the section above.",
        ),
        table(("executed", "success", "box-close, coffee-pull, disassemble, stick-pull"), lines),
        paragraph(
            "The mean absolute error of its chunks on held-out episodes is "
            f"{fmean(row['held_out']['mae'] for row in rows):.3f}."
        ),
        script="regression",
    )
