"""How the page on the reproduction says that rows were made."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks import light_findings, made_rows, record
from benchmarks.report import DOCS
from benchmarks.reproduction import reproduction_page
from tests.benchmarks.result_rows import control_cell, tasks

PAGE = DOCS / "reproduction.md"


def test_rows_of_control_keep_their_names_and_levels(results: Path) -> None:
    """What the page calls a row is found in the JSON by that name."""
    light, recipe = {"levels": [8, 5, 5, 5]}, {"history": 1, "code_smoothing": 1.0}
    cells = [
        {**control_cell(row, 0, {8: 100}), **recipe, "offset_layers": 0, "kind": kind}
        for row, kind in (("oat, no offset", "oat"), ("acodec, no offset", "acodec"))
    ]
    cells[0]["budgets"][0]["tasks"] = [{"task": "box-close", "success": {"episodes": 50}}]
    cells[1]["budgets"][0]["tasks"] = [{"task": "box-close", "success": {"episodes": 50}}]
    found = {f"{cell['row']}/0/half": cell for cell in cells}
    record.write_result("control", seed=0, settings={"light": light}, results={"cells": found})
    page = reproduction_page()
    assert "| control | `oat, no offset`, seeds 0 | 8 5 5 5 | 8 | 2500 | 8000 | 1 | 1 | 0 |" in page
    assert "| control | `acodec, no offset`, seeds 0 | | 8 |" in page
    cells[0]["levels"] = [4, 4]
    record.write_result("control", seed=0, settings={"light": light}, results={"cells": found})
    assert "seeds 0 | 4 4 | 8 |" in reproduction_page()
    assert light_findings.controlled("oat") is not None


def test_every_row_of_control_on_the_page_is_in_the_json() -> None:
    cells = record.read_results("control")["cells"].values()
    named = re.findall(r"\| control \| `(.+?)`, seeds ([\d, ]+) \|", PAGE.read_text())
    assert named
    for row, seeds in named:
        found = {(cell["row"], cell["seed"]) for cell in cells if cell["rule"] == "half"}
        assert {(row, int(seed)) for seed in seeds.split(",")} <= found


def test_numbers_of_episodes_are_those_that_ran() -> None:
    even = [tasks(lift=(1, 10), can=(2, 10))] * 2
    assert made_rows.episodes(even) == "10"
    uneven = [tasks(can=(0, 10), lift=(7, 20)), tasks(can=(0, 10), lift=(7, 18))]
    assert made_rows.episodes(uneven) == "can 10, lift 20 / 18"
    assert "| can 10, lift 20 / 20 / 18 / 10, square 10 |" in PAGE.read_text()
