"""Applies the blocks of a how-to page to a copy of the source, and counts the files it touched.

A page marks its blocks with comments that readers do not see:

    <!-- new file: src/oatkit/tokenizers/mean.py -->          the next block is that file
    <!-- row in: src/oatkit/tokenizers/kind_table.py after: KINDS -->
                                                              the next block goes behind the first
                                                              line that begins with `KINDS`

so that what is tested is what is printed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
STEP = re.compile(
    r"<!-- (?:new file: (?P<new>\S+)|row in: (?P<changed>\S+) after: (?P<after>.+?)) -->\n+"
    r"```\w*\n(?P<text>.*?)^```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Extended:
    """A copy of the project with what a page adds.

    Attributes:
        root: Where the copy is.
        new: Files that the page adds, below the root.
        changed: Files that it puts a row into.
    """

    root: Path
    new: tuple[str, ...]
    changed: tuple[str, ...]

    def run(self, *args: str) -> str:
        """Run Python on the copy; gives what it printed, and fails with its error."""
        paths = [self.root / "src", self.root / "packages/oatkit-client/src", self.root]
        ran = subprocess.run(
            [sys.executable, *args],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def oatkit(self, *args: str) -> str:
        """Run a command of the copy."""
        return self.run("-m", "oatkit.cli", *args)


def extend(page: str, folder: Path, section: str | None = None) -> Extended:
    """Do what a page of `docs/`, or one section of it, says, in a copy below `folder`."""
    text = (ROOT / "docs" / page).read_text()
    if section is not None:
        begin = text.index(f"## {section}\n")
        end = text.find("\n## ", begin + 1)
        text = text[begin : None if end < 0 else end]
    root = folder / "copy"
    for part in ("src", "packages/oatkit-client/src", "tests"):
        shutil.copytree(
            ROOT / part,
            root / part,
            ignore=shutil.ignore_patterns("__pycache__", "golden", "*.egg-info"),
        )
    new: list[str] = []
    changed: list[str] = []
    for step in STEP.finditer(text):
        if step["new"]:
            path = root / step["new"]
            assert not path.exists(), f"{step['new']} is there already"
            path.write_text(step["text"])
            new.append(step["new"])
        else:
            _insert(root / step["changed"], step["after"], step["text"])
            changed.append(step["changed"])
    return Extended(root, tuple(new), tuple(dict.fromkeys(changed)))


def _insert(path: Path, after: str, text: str) -> None:
    lines = path.read_text().splitlines(keepends=True)
    place = next((n for n, line in enumerate(lines) if line.strip().startswith(after)), None)
    assert place is not None, f"no line of {path.name} begins with {after!r}"
    path.write_text("".join([*lines[: place + 1], text, *lines[place + 1 :]]))
