"""`oatkit policy train`: a dataset and a tokenizer in, a policy artifact out."""

from __future__ import annotations

import shlex

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.jobs.policy_training import TrainPolicy, train_policy


def run(options: TrainPolicy, console: Console) -> int:
    train_policy(options, console)
    out, data = shlex.quote(str(options.out)), shlex.quote(options.data)
    next_command = f"oatkit policy measure {out} --data {data}"
    print_lines(console, f"wrote {options.out}", f"next: {next_command}")
    return 0
