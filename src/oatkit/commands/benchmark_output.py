"""What `oatkit policy eval --benchmark` prints, and the options of its simulators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from oatkit.commands.text_output import table
from oatkit.types import BenchmarkEvaluation, BenchmarkPart, BenchmarkRow, SuccessRate


def env_options(pairs: Sequence[str]) -> dict[str, Any]:
    """What KEY=VALUE pairs say; values that are JSON are taken as that, others as text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, is_pair, value = pair.partition("=")
        if not name or not is_pair:
            raise ValueError(f"--env-option {pair!r} is no KEY=VALUE")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def render_benchmarks(records: Sequence[BenchmarkEvaluation], rows: Sequence[BenchmarkRow]) -> Text:
    """Success of every policy and budget on every benchmark, then of its parts and their tasks."""
    names = list(dict.fromkeys(name for row in rows for name in row.success))
    lines = [["success, 95 % interval", *names, "average", "mean rank"]]
    for row in rows:
        found = (row.success.get(name) for name in names)
        last = ["" if row.average is None else f"{row.average:.1%}"]
        last += ["" if row.rank is None else f"{row.rank:.1f}"]
        lines.append([row.name, *(_words(rate) if rate else "" for rate in found), *last])
    text = Text("\n")
    text.append_text(table(lines))
    for record in records:
        for part in record.parts:
            text.append(f"{_words(part.success):>26}  {part.selector}, {_tasks(part)}\n")
            for task in part.tasks if len(part.tasks) > 1 else ():
                text.append(f"{_words(task.success):>26}  {part.selector}: {task.task}\n", "dim")
        text.append("".join(f"{line}\n" for line in record.decoding_lines()))
    text.rstrip()
    return text


def _tasks(part: BenchmarkPart) -> str:
    return part.tasks[0].task if len(part.tasks) == 1 else f"all {len(part.tasks)} tasks"


def _words(rate: SuccessRate) -> str:
    return f"{rate.rate:.1%} ({rate.low:.1%} - {rate.high:.1%})"
