"""How long the rest of a table takes, from the rows that were made."""

from __future__ import annotations

import time

from rich.console import Console

from oatkit.train.progress_bar import two_digits


class RowClock:
    """Says after every row how long those that are left take, where it is more than a minute.

    Args:
        console: Where it is said.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._num_made = 0

    def made_one(self, num_left: int) -> None:
        """A row was made, and so many are left."""
        self._num_made += 1
        minutes = num_left * (time.monotonic() - self._began) / self._num_made / 60
        if minutes > 1:
            rows = "row" if num_left == 1 else f"{num_left} rows"
            words = f"about {two_digits(minutes)} minutes for the {rows} left"
            self._console.print(words, style="dim")
