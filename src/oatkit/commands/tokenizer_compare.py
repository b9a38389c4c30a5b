"""`oatkit tokenizer compare`: every kind on one dataset, and a report."""

from __future__ import annotations

import shlex

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.jobs.tokenizer_comparison import CompareTokenizers, compare_tokenizers


def run(options: CompareTokenizers, console: Console) -> int:
    compare_tokenizers(options, console)
    out, data = shlex.quote(str(options.out)), shlex.quote(options.data)
    next_command = f"oatkit tokenizer sweep --data {data} --out {out}/sweep.json"
    print_lines(console, f"open {options.out / 'report.html'}", f"next: {next_command}")
    return 0
