"""`oatkit doctor`: what works on this machine, and the line that mends what does not."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from oatkit.jobs.machine_check import diagnose


@dataclass(frozen=True)
class Doctor:
    """Say what works on this machine and how to mend what does not.

    Example:
        oatkit doctor
    """


def run(options: Doctor, console: Console) -> int:
    """Always returns 0: nothing here must work."""
    for diagnosis in diagnose():
        mark = Text("--", "yellow") if diagnosis.remedy else Text("ok", "green")
        line = Text.assemble(mark, f"  {diagnosis.what:<18}{diagnosis.detail}")
        if diagnosis.remedy:
            line.append(f"\n    {diagnosis.remedy}", style="bold")
        console.print(line, soft_wrap=True)
    console.print("-- marks what is not needed until you use it; below it the line that mends it")
    return 0
