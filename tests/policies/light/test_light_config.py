"""Sizes of the light policy that are impossible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.policies import tiny


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 0}, "num_layers is 0, expected at least 1"),
        ({"num_heads": 3}, "width 16 is not divisible by 3 heads"),
        ({"crop_size": 32}, "crop_size is 32, expected at least 33"),
        ({"image_size": 20}, "crop_size 36 exceeds image_size 20"),
    ],
)
def test_impossible_sizes_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(tiny.CONFIG, **changes)
