"""`oatkit merge`: the records of all shards joined into one result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from oatkit.commands.text_output import print_lines
from oatkit.jobs.shard_table import MERGES
from oatkit.shards import merge_folder


@dataclass(frozen=True)
class MergeShards:
    """Join what the shards of a command have written; says what is missing, if anything is.

    Example:
        oatkit policy eval out/policy --budgets 1 2 4 8 --shard 0/2 --out out/eval
        oatkit policy eval out/policy --budgets 1 2 4 8 --shard 1/2 --out out/eval
        oatkit merge out/eval
    """

    folder: Annotated[Positional[Path], arg(metavar="DIR")]
    """The folder that the shards have as --out."""


def run(options: MergeShards, console: Console) -> int:
    print_lines(console, f"wrote {merge_folder(options.folder, MERGES)}")
    return 0
