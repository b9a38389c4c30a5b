"""`oatkit vlm combinations`: every vision-language policy there is."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.policies.vlm.combinations import combinations


@dataclass(frozen=True)
class ListCombinations:
    """List every vision-language policy: objective, tokenizer, backbone.

    Example:
        oatkit vlm combinations
    """


def run(options: ListCombinations, console: Console) -> int:
    for combination in combinations():
        print_lines(console, f"{combination.name:<30}{combination.command}")
    return 0
