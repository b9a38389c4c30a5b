"""The sections of the results page on robosuite: experts, recordings, and the light table."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import paragraph, recipes, said, section, table
from benchmarks.report_policies import rate
from oatkit.types import budget_name


def robosuite_experts(record: dict[str, Any]) -> str:
    results, (height, width) = record["results"], record["settings"]["image_size"]
    rows = [
        (
            *(f"`{task}`", row["robosuite_name"], f"{row['successes']} of {row['episodes']}"),
            f"{100 * row['interval'][0]:.0f} to {100 * row['interval'][1]:.0f}",
            " / ".join(map(str, row["steps"] or ())),
            *(f"{row['steps_per_s']:.0f}", f"{row['own_steps_per_s']:.0f}"),
            f"{row['images_per_s']:.0f}",
            f"{row['images_without_shadows_per_s']:.0f}",
        )
        for task, row in results.items()
    ]
    return section(
        "Scripted experts and speed of robosuite",
        paragraph(
            "Our experts from the start poses of the first demonstrations, with Wilson's 95 % "
            "interval in percent, and the least, median and most steps of a success.",
            "Speeds are those of one core, per second of CPU time: steps of our adapter, steps of "
            f"robosuite's own environment, and images of {height} x {width}, without shadows and "
            "reflections in the last column.",
        ),
        table(
            (
                *("task", "in robosuite", "solved", "interval", "steps", "steps/s", "its own"),
                *("images/s", "plain"),
            ),
            rows,
        ),
        script="robosuite_experts",
    )


def robosuite_replay(record: dict[str, Any]) -> str:
    rows = [
        (
            *(f"`{name}`", row["robosuite_name"], str(row["recordings"])),
            f"{row['successes']} of {row['episodes']}",
            f"{100 * row['interval'][0]:.0f} to {100 * row['interval'][1]:.0f}",
            " / ".join(map(str, row["steps"] or ())),
        )
        for name, row in record["results"].items()
    ]
    return section(
        "Recordings of robosuite from other start poses",
        paragraph(
            "Human recordings from the history of robosuite, moved to the start poses of the first "
            "demonstrations and replayed (`oatkit data make robosuite --from-demos`): how often "
            "that solves the task, with Wilson's 95 % interval in percent, and the least, median "
            "and most steps of a success.",
        ),
        table(("file", "task", "recordings", "solved", "interval", "steps"), rows),
        script="robosuite_replay",
    )


def policy_robosuite(record: dict[str, Any]) -> str:
    results = record["results"]
    protocol = next(iter(results.values()))["protocol"]
    tasks = [task["task"] for task in next(iter(results.values()))["budgets"][0]["tasks"]]
    counts = [
        task["success"]["episodes"]
        for row in results.values()
        for budget in row["budgets"]
        for task in budget["tasks"]
    ]
    count = " to ".join(map(str, sorted({min(counts), max(counts)})))
    rows = [
        (
            *(f"`{name}`", str(row["tokenizer_steps"]), str(row["steps"])),
            budget_name(budget["budget"]),
            *(f"{100 * task['success']['rate']:.0f}" for task in budget["tasks"]),
            rate(budget["success"]),
        )
        for name, row in results.items()
        for budget in row["budgets"]
    ]
    return section(
        "The light table on robosuite",
        paragraph(
            f"The light policy has the preset `{said(results.values(), 'preset')}` and learns from "
            "50 demonstrations of each task by our scripted experts, from state unless the row "
            "says images.",
            f"A chunk has {protocol['horizon']} actions, of which {protocol['execute']} are "
            f"executed; there are {count} episodes of each task and budget, and one "
            "training of each row.",
            "Success is in percent, the last column with Wilson's 95 % interval.",
            recipes(results),
        ),
        table(("tokens", "tokenizer steps", "steps", "budget", *tasks, "all"), rows),
        script="policy_robosuite",
    )
