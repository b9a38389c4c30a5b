"""How the light table on robosuite names its rows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from benchmarks import policy_robosuite
from benchmarks.closed_loop import Cell, in_order
from benchmarks.policy_robosuite import DEFAULT, IMAGES, TABLE, labeled

MAKEFILE = Path(__file__).parents[2] / "Makefile"


def test_rows_from_images_have_names_of_their_own() -> None:
    cell = Cell("oat", seed=1)
    assert labeled(cell, images=False).label == "oat, seed 1"
    assert labeled(cell, images=True).label == f"oat{IMAGES}, seed 1"
    assert set(DEFAULT) <= TABLE.all_rows.keys()


def test_make_asks_for_rows_of_the_stored_recipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of other steps could not be compared with those that are there."""
    text = MAKEFILE.read_text()
    (recipe,) = re.findall(r"^ROBOSUITE_RECIPE := (.*)", text, re.MULTILINE)
    monkeypatch.setattr(policy_robosuite, "find_place", lambda *_: None)
    monkeypatch.setattr(policy_robosuite, "measure_cell", lambda *_: (None, {}))
    monkeypatch.setattr(policy_robosuite, "write_result", lambda *_, **__: None)
    asked = re.findall(r"-m benchmarks\.policy_robosuite(.*)", text)
    assert len(asked) == 2
    for options in asked:
        policy_robosuite.main(shlex.split(options.replace("$(ROBOSUITE_RECIPE)", recipe)))
    said = capsys.readouterr().out
    for row in ("quest", "oat", "oat-pow2"):
        assert f"{row} is finished; --again measures it again" in said.splitlines()


def test_rows_stay_in_the_order_of_the_table() -> None:
    names = [f"{row}{seen}" for row in TABLE.all_rows for seen in ("", IMAGES)]
    found = in_order({"oat, images": 1, "oat": 2, "bin": 3}, names)
    assert list(found) == ["bin", "oat", "oat, images"]
