"""A work whose units are numbers to square."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oatkit.shards import ShardPlan


class Squares:
    """See `oatkit.shards.Work`; notes what it ran."""

    name = "squares"

    def __init__(self, count: int = 10, *, power: int = 2, stop_at: str | None = None) -> None:
        self.settings: dict[str, Any] = {"count": count, "power": power}
        self.facts: dict[str, Any] = {"where": "here"}
        self._stop_at = stop_at
        self.ran: list[str] = []

    def units(self) -> Sequence[str]:
        return [f"n/{number}" for number in range(self.settings["count"])]

    def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
        for key in keys:
            if key == self._stop_at:
                raise KeyboardInterrupt
            self.ran.append(key)
            yield key, int(key.split("/")[1]) ** self.settings["power"]


def merge_squares(plan: ShardPlan, results: dict[str, Any], folder: Path) -> Path:
    path = folder / "squares.txt"
    path.write_text(f"{plan.settings} {list(results.items())}")
    return path


MERGES = {"squares": lambda: merge_squares}
