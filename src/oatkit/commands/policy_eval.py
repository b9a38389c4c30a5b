"""`oatkit policy eval`: success in a simulator, with intervals."""

from __future__ import annotations

import shlex

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.jobs.policy_evaluation import RECORD, EvalPolicy, eval_policy


def run(options: EvalPolicy, console: Console) -> int:
    eval_policy(options, console)
    record = shlex.quote(str(options.out / RECORD))
    report = options.out / "report.html"
    print_lines(
        console,
        f"wrote {options.out / RECORD}",
        *([f"open {report}"] if report.exists() else []),
        f"next: oatkit policy eval ANOTHER --env {options.env} --against {record} --out DIR",
    )
    return 0
