"""`oatkit tokenizer train`: a dataset in, a self-contained tokenizer artifact out."""

from __future__ import annotations

import shlex

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.jobs.tokenizer_training import TrainTokenizer, train_tokenizer


def run(options: TrainTokenizer, console: Console) -> int:
    train_tokenizer(options, console)
    out, data = shlex.quote(str(options.out)), shlex.quote(options.data)
    next_command = f"oatkit tokenizer measure {out} --data {data}"
    print_lines(console, f"wrote {options.out}", f"next: {next_command}")
    return 0
