"""The way that a piece of work takes through the files of oatkit.

    python -m benchmarks.walk                 # the walks of docs/architecture.md
    python -m benchmarks.walk prediction      # one of them

`benchmarks/walks/` has one script each: what stands before the line `# walk` prepares and warms up,
so that what happens only once is not counted; what stands between it and `# end` is followed.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import oatkit

SOURCE = Path(oatkit.__file__).parent
WALKS = ("prediction", "training_step", "served_request")
UNNAMED = ("<listcomp>", "<genexpr>", "<lambda>", "<dictcomp>", "<setcomp>")
"""Pieces of a function that are no steps of their own."""


@dataclass(frozen=True)
class Step:
    """A call from one file into another.

    Attributes:
        depth: Number of files that wait for this one.
        file: File that is entered, below `src/oatkit`.
        function: Function that is called there.
    """

    depth: int
    file: str
    function: str


@dataclass(frozen=True)
class Walk:
    """Everything that one piece of work passed through.

    Attributes:
        steps: Calls from one file into another, in order.
        crossings: Number of calls from the first file of a pair into the second.
    """

    steps: tuple[Step, ...]
    crossings: Counter[tuple[str, str]]

    @property
    def num_files(self) -> int:
        """Number of different files."""
        return len({step.file for step in self.steps})

    @property
    def back_and_forth(self) -> list[tuple[str, str]]:
        """Pairs of files that call each other."""
        pairs = self.crossings
        return sorted((a, b) for a, b in pairs if a < b and (b, a) in pairs)

    def __str__(self) -> str:
        lines = []
        for step, same in groupby(self.steps):
            times = len(list(same))
            repeated = f"  x{times}" if times > 1 else ""
            lines.append(f"{'  ' * step.depth}{step.file}: {step.function}{repeated}")
        return "\n".join([*lines, f"{len(self.steps)} steps, {self.num_files} files"])


def follow(work: Callable[[], object]) -> Walk:
    """Do the work, and note each call from one file of oatkit into another, in all threads."""
    open_files: dict[int, list[tuple[str, FrameType]]] = {}
    steps: list[Step] = []
    crossings: Counter[tuple[str, str]] = Counter()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        stack = open_files.setdefault(threading.get_ident(), [])
        if event == "return" and stack and stack[-1][1] is frame:
            stack.pop()
        if event != "call" or frame.f_code.co_name in UNNAMED:
            return
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(SOURCE):
            return
        file = str(path.relative_to(SOURCE))
        if stack and stack[-1][0] == file:
            return
        if stack:
            crossings[stack[-1][0], file] += 1
        steps.append(Step(len(stack), file, frame.f_code.co_name))
        stack.append((file, frame))

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Walk(tuple(steps), crossings)


def walk(name: str) -> Walk:
    """Follow the work of one script of `benchmarks/walks/`."""
    script = Path(__file__).parent / "walks" / f"{name}.py"
    before, rest = script.read_text().split("# walk\n")
    body, after = rest.split("# end\n")
    names: dict[str, Any] = {"__name__": name}
    exec(compile(before, str(script), "exec"), names)
    work = compile(body, str(script), "exec")
    found = follow(lambda: exec(work, names))
    exec(compile(after, str(script), "exec"), names)
    return found


def main() -> None:
    """Print some walks, or all."""
    for name in sys.argv[1:] or WALKS:
        found = walk(name)
        print(f"{name}\n\n{found}")
        for first, second in found.back_and_forth:
            print(f"back and forth: {first}, {second}")
        print()


if __name__ == "__main__":
    main()
