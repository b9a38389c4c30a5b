"""A bar on a terminal while files are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def reading_progress(
    name: str, total: int, *, is_shown: bool = True
) -> Iterator[Callable[[int], None]]:
    """A function that moves the bar on, which is gone when the block ends.

    Args:
        name: What is read.
        total: Number of rows or bytes to read.
        is_shown: Whether to show the bar, which needs a terminal as well.
    """
    console = Console(stderr=True)
    is_quiet = not (is_shown and console.is_terminal)
    with Progress(console=console, transient=True, disable=is_quiet) as progress:
        task = progress.add_task(f"reading {name}", total=total)
        yield lambda count: progress.advance(task, count)
