"""`oatkit policy sweep`: the paper's ablations in closed loop."""

from __future__ import annotations

import shlex

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.jobs.policy_sweep import SweepPolicy, sweep_policy


def run(options: SweepPolicy, console: Console) -> int:
    sweep_policy(options, console)
    folder, env = shlex.quote(str(options.out.with_suffix(""))), options.env
    print_lines(
        console,
        f"wrote {options.out}",
        f"next: oatkit policy eval {folder}/ONE/policy --env {env} --budgets 1 2 4 --out DIR",
    )
    return 0
