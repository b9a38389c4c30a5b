"""The progress bar of jobs that run episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

Show = Callable[[str, int, int], None]
"""Takes what was done last, how many episodes there are, and how many of what is counted beside."""


@contextmanager
def episode_bar(console: Console, total: int, counted: str) -> Iterator[Show]:
    """A bar of episodes; call what is yielded to bring it up to date.

    Args:
        console: Where to show the bar; nothing is shown where it is quiet.
        total: Number of episodes in the end.
        counted: What is counted beside, such as "solved".
    """
    columns = (
        TextColumn("{task.description:30}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} episodes"),
        TextColumn(f"{{task.fields[count]}} {counted}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("starting", total=total, count=0)

        def show(last: str, completed: int, count: int) -> None:
            progress.update(bar, description=last, completed=completed, count=count)

        yield show
