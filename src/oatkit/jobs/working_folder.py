"""The folder that a job works in: the caller's, or one that is gone afterwards."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def working_folder(out: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The folder `out`, or a temporary one while the block runs if it is None."""
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="oatkit-") as folder:
        yield Path(folder)
