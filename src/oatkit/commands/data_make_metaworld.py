"""`oatkit data make metaworld`: demonstrations of scripted experts, as a LeRobot dataset."""

from __future__ import annotations

import shlex

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.jobs.metaworld_demonstrations import MakeMetaWorld, make_metaworld


def run(options: MakeMetaWorld, console: Console) -> int:
    folder = make_metaworld(options)
    next_command = f"oatkit data info {shlex.quote(str(folder))}"
    print_lines(console, f"{folder} is ready", f"next: {next_command}")
    return 0
