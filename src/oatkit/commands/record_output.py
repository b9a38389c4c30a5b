"""Results as JSON beside what is printed, where `--out` asks for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.storage.atomic_write import written_whole


def write_result(result: Any, out: Path | None, console: Console) -> None:
    """Write a record, or several as a list, and say so; without `out` nothing happens.

    Args:
        result: A dataclass of `oatkit.types`, or a sequence of them.
        out: The JSON file.
        console: Where to say that it was written.
    """
    if out is None:
        return
    is_list = isinstance(result, Sequence)
    value = [asdict(record) for record in result] if is_list else asdict(result)
    out.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(out) as aside:
        aside.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    print_lines(console, f"wrote {out}", style="dim")
