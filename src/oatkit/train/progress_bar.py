"""The bar that shows how far training is: in a terminal, or in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

SHOWN_WAITING = 0.1


class TrainingProgress:
    """Steps, loss, speed and time left in one line, and below it the parts of the loss.

    Args:
        steps: Number of steps of the run.
        done: Number of steps that were done before.
        is_shown: Whether anything is shown at all.
        console: Where it is shown; standard error by default.
    """

    def __init__(
        self, steps: int, done: int = 0, *, is_shown: bool = True, console: Console | None = None
    ) -> None:
        self._is_shown = is_shown
        self._console = console or Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._bar = self._progress.add_task("", total=steps, completed=done, numbers="")
        self._parts = Text()
        self._is_announced = False
        self._is_cautioned = False

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show it while the block runs."""
        if not self._is_shown:
            yield
            return
        console, task = self._console, self._progress.tasks[self._bar]
        if task.remaining == 0:
            console.print(f"all {task.total:,.0f} steps were done before", highlight=False)
            yield
            return
        if task.completed:
            console.print(f"going on after step {task.completed:,.0f}", highlight=False)
        try:
            with Live(get_renderable=self._render, console=console, refresh_per_second=10) as live:
                yield
                live.refresh()  # in a notebook the end would not be shown otherwise
        finally:
            if not console.is_interactive and not console.is_jupyter:
                console.print()  # in a file the last line has no end otherwise

    def advance(self, step: int) -> None:
        """Say that so many steps are done."""
        self._progress.update(self._bar, completed=step)

    def update(
        self, loss: float, samples_per_s: float, parts: Mapping[str, float], waiting: float = 0.0
    ) -> None:
        """Say how it goes; a single part of a loss is the loss itself and not repeated.

        Args:
            loss: Mean loss of the last steps.
            samples_per_s: Samples of all processes in a second.
            parts: Parts of the loss.
            waiting: Share of the time in which steps waited for data; a small one is not shown.
        """
        numbers = f"loss {loss:.4g}  {samples_per_s:,.0f} samples/s"
        if waiting >= SHOWN_WAITING:
            numbers += f"  {100 * waiting:.0f} % waiting"
        self._progress.update(self._bar, numbers=numbers)
        self._parts = Text(f"training: {_line(parts)}" if len(parts) > 1 else "", style="dim")

    def announce(self, seconds_left: float) -> None:
        """Say once how long it takes, where that is more than a minute."""
        if self._is_shown and not self._is_announced and seconds_left > 60:
            self._console.print(f"about {two_digits(seconds_left / 60)} minutes", highlight=False)
        self._is_announced = True

    def caution(self, text: str) -> None:
        """Print a text above the bar, the first time only."""
        if self._is_shown and not self._is_cautioned:
            self._console.print(f"note: {text}", highlight=False, soft_wrap=True)
        self._is_cautioned = True

    def report(self, step: int, found: Mapping[str, float]) -> None:
        """Print what was found on held-out data above the bar."""
        if self._is_shown:
            self._console.print(f"step {step:,}, held out:  {_line(found)}", highlight=False)

    def _render(self) -> Group:
        return Group(self._progress, self._parts) if self._parts else Group(self._progress)


def two_digits(number: float) -> str:
    """A number of which only the first two digits count: 0.012, 2.7, 120."""
    return f"{float(f'{number:.2g}'):g}"


def _line(numbers: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.3g}" for name, value in numbers.items())
