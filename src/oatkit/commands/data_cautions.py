"""What a command says about its data before it trains on them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.data import Dataset
from oatkit.data.check import quick_check
from oatkit.types import Finding
from oatkit.types.observation_keys import ENVIRONMENT_STATE

MAX_SHOWN = 3
"""Number of findings of a kind that are shown."""


def print_cautions(console: Console, dataset: Dataset, *, reads_state: bool) -> None:
    """Print what would ruin a training, if there is something.

    Args:
        console: Where to print.
        dataset: Demonstrations to be trained on.
        reads_state: Whether the state is an input.
    """
    if os.environ.get("RANK", "0") != "0":  # one of the processes of `accelerate launch` says it
        return
    by_kind: dict[str, list[Finding]] = {}
    for finding in quick_check(dataset, reads_state=reads_state):
        by_kind.setdefault(finding.kind, []).append(finding)
    for findings in by_kind.values():
        print_lines(console, *_lines(findings), style="yellow")


def print_unseen(console: Console, dataset: Dataset, cameras: Sequence[str]) -> None:
    """Print that a policy would see the robot alone, where the dataset knows all else too.

    Args:
        console: Where to print.
        dataset: Demonstrations to be trained on.
        cameras: Cameras that the policy sees.
    """
    state = () if dataset.state is None else dataset.state.keys
    if cameras or ENVIRONMENT_STATE in state or ENVIRONMENT_STATE not in dataset.columns:
        return
    keys = " ".join((*state, ENVIRONMENT_STATE))
    print_lines(
        console,
        "caution: the policy sees the robot alone, and neither objects nor goal",
        f"  let it read them with --state-key {keys}, or images with --cameras",
        style="yellow",
    )


def _lines(findings: Sequence[Finding]) -> list[str]:
    lines = [f"caution: {finding.message}" for finding in findings[:MAX_SHOWN]]
    if len(findings) > MAX_SHOWN:
        lines.append(f"  and {len(findings) - MAX_SHOWN} more: `oatkit data check` lists them")
    return [*lines, f"  {findings[0].remedy}"]
