"""Ordered action tokens for robots.

    import oatkit

    dataset = oatkit.open_dataset("path/to/demonstrations")
    batch = dataset.chunks(horizon=32).sample(256, rng)

Names are loaded when first used, so that `import oatkit` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oatkit.data import Chunks, Dataset, Episode, Normalizer, Statistics, open_dataset
    from oatkit.errors import DatasetError, MissingExtraError, OatkitError

__version__ = "0.1.0"

__all__ = [
    "Chunks",
    "Dataset",
    "DatasetError",
    "Episode",
    "MissingExtraError",
    "Normalizer",
    "OatkitError",
    "Statistics",
    "open_dataset",
]

_HOMES = {
    "oatkit.data": ("Chunks", "Dataset", "Episode", "Normalizer", "Statistics", "open_dataset"),
    "oatkit.errors": ("DatasetError", "MissingExtraError", "OatkitError"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'oatkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
