"""What commands print: plain lines, and rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text


def print_lines(console: Console, *lines: str, style: str | None = None) -> None:
    """Print lines as they are: nothing is wrapped or taken for markup."""
    console.print("\n".join(lines), style=style, soft_wrap=True, markup=False)


def print_differences(console: Console, name: object, differences: Iterable[str]) -> None:
    """Print where an artifact and a dataset do not fit."""
    for difference in differences:
        print_lines(console, f"note: {name}: {difference}")


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


def table(rows: Sequence[Sequence[str]]) -> Text:
    """Rows below a dim heading, each column as wide as its widest cell and two spaces."""
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    text = Text()
    for number, row in enumerate(rows):
        text.append(table_row(*row, widths=widths), style="" if number else "dim")
    return text
