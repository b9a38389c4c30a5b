from __future__ import annotations

from oatkit.measure.reports.kind_styles import STYLES
from oatkit.tokenizers import KINDS


def test_every_kind_has_a_color_and_a_mark_of_its_own() -> None:
    assert list(STYLES) == list(KINDS)
    assert len({color for color, _ in STYLES.values()}) == len(KINDS)
    assert len({mark for _, mark in STYLES.values()}) == len(KINDS)
