"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ASIDE = "writing-"
"""How the name of a file begins while it is being written; a kill may leave such files."""


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` when the block ends without an error."""
    aside = path.with_name(f"{ASIDE}{os.getpid()}-{path.name}")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
