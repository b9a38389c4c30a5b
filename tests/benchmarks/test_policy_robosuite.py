"""How the light table on robosuite names its rows."""

from __future__ import annotations

from benchmarks.closed_loop import Cell, in_order
from benchmarks.policy_robosuite import DEFAULT, IMAGES, TABLE, labeled


def test_rows_from_images_have_names_of_their_own() -> None:
    cell = Cell("oat", seed=1)
    assert labeled(cell, images=False).label == "oat, seed 1"
    assert labeled(cell, images=True).label == f"oat{IMAGES}, seed 1"
    assert set(DEFAULT) <= TABLE.all_rows.keys()


def test_rows_stay_in_the_order_of_the_table() -> None:
    names = [f"{row}{seen}" for row in TABLE.all_rows for seen in ("", IMAGES)]
    found = in_order({"oat, images": 1, "oat": 2, "bin": 3}, names)
    assert list(found) == ["bin", "oat", "oat, images"]
