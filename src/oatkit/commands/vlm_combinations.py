"""`oatkit vlm combinations`: every vision-language policy there is."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.policies.vlm.combinations import cells


@dataclass(frozen=True)
class ListCombinations:
    """List every vision-language policy: objective, tokenizer, backbone.

    Example:
        oatkit vlm combinations
    """


def run(options: ListCombinations, console: Console) -> int:
    for cell in cells():
        print_lines(console, f"{cell.name:<30}{cell.command}")
    return 0
