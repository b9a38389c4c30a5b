"""What commands print: plain lines, and rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text


def print_lines(console: Console, *lines: str, style: str | None = None) -> None:
    """Print lines as they are: nothing is wrapped or taken for markup."""
    console.print("\n".join(lines), style=style, soft_wrap=True, markup=False)


def titled(title: str, details: str) -> Text:
    """A text to append rows to, which begins with a title and a line of details."""
    text = Text(overflow="fold")
    text.append(title, style="bold")
    text.append(f"  {details}\n", style="dim")
    return text


def table_row(*cells: str, widths: Sequence[int] = (10,)) -> str:
    """A line with each cell at the right of its column.

    Args:
        cells: What the columns hold.
        widths: Characters of each column; the last number holds for all further columns.
    """
    last = len(widths) - 1
    padded = (f"{cell:>{widths[min(i, last)]}}" for i, cell in enumerate(cells))
    return "".join(padded) + "\n"
