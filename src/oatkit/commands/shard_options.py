"""The flag of commands whose work is cut into shards, and what such a command prints."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import arg

from oatkit.commands.text_output import print_lines
from oatkit.jobs.shard_table import MERGES
from oatkit.shards import ShardNumber, Work, merge_folder, run_shard

ShardFlag = Annotated[
    str | None,
    arg(
        metavar="I/N",
        help="Run only the I-th of N shards, counted from 0, into the folder --out that all shards "
        "share; `oatkit merge` joins them. Finished units are skipped. 0/1 is all in one, joined "
        "at once: the same bytes as any number of shards.",
    ),
]


def run_as_shard(work: Work, shard: str, out: Path, console: Console) -> int:
    """Run one shard of some work and say what comes next; the only shard is joined at once."""
    number = ShardNumber.parse(shard)

    def report(key: str, done: int, total: int) -> None:
        print_lines(console, f"{key} ({done} of {total})", style="dim")

    num_run, num_skipped = run_shard(work, number, out, report=report)
    skipped = f", {num_skipped} were finished before" if num_skipped else ""
    following = f"next, when all shards have ended: oatkit merge {shlex.quote(str(out))}"
    if number.count == 1:
        following = f"wrote {merge_folder(out, MERGES)}"
    print_lines(console, f"shard {number}: {num_run} units{skipped}", following)
    return 0
