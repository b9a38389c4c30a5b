"""Files that appear completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

ASIDE = "writing-"
"""How the name of a file begins while it is being written; a kill may leave such files."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` when the block ends without an error."""
    # nodes of a cluster that share a disk may have the same process numbers
    aside = path.with_name(f"{ASIDE}{uuid4().hex}-{path.name}")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
