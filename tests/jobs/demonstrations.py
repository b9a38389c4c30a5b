"""Small datasets of demonstrations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld

DATA = "data/chunk-000/file-000.parquet"


def make(out: Path, *, workers: int = 1, **wanted: Any) -> Path:
    """Three episodes of two tasks, unless something else is wanted."""
    settings = {"tasks": ("reach", "door-close"), "episodes": 3, **wanted}
    return make_metaworld(out, Demonstrations(**settings), workers=workers)
