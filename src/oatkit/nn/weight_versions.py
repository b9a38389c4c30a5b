"""Whether weights are still those that something was made from."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor


def weight_versions(weights: Iterable[Tensor]) -> list[tuple[int, int]]:
    """Numbers that change when a weight is written to or moved."""
    return [(w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights]
