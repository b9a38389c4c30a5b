"""Results as JSON beside what is printed, where `--out` asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.storage.records import write_record, write_records


def write_result(result: Any, out: Path | None, console: Console) -> None:
    """Write a record, or several as a list, and say so; without `out` nothing happens.

    Args:
        result: A dataclass of `oatkit.types`, or a sequence of them.
        out: The JSON file.
        console: Where to say that it was written.
    """
    if out is None:
        return
    if isinstance(result, Sequence):
        write_records(out, result)
    else:
        write_record(out, result)
    print_lines(console, f"wrote {out}", style="dim")
