"""`oatkit tokenizer sweep`: the paper's ablations of oat."""

from __future__ import annotations

import shlex

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.jobs.tokenizer_sweep import SweepTokenizer, sweep_tokenizer


def run(options: SweepTokenizer, console: Console) -> int:
    sweep_tokenizer(options, console)
    data, kind = shlex.quote(options.data), options.kind
    next_command = f"oatkit tokenizer train --data {data} --kind {kind} --out out/{kind}"
    print_lines(console, f"wrote {options.out}", f"next: {next_command}")
    return 0
