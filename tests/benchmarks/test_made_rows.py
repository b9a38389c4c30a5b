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
    settings = {"light": {"levels": [8, 5, 5, 5]}, "horizon": 32}
    recipe = {"history": 1, "code_smoothing": 1.0}
    cells = [
        {**control_cell(row, 0, {8: 100}), **recipe, "offset_layers": 0, "kind": kind}
        for row, kind in (("oat, no offset", "oat"), ("acodec, no offset", "acodec"))
    ]
    cells[0]["budgets"][0]["tasks"] = [{"task": "box-close", "success": {"episodes": 50}}]
    cells[1]["budgets"][0]["tasks"] = [{"task": "box-close", "success": {"episodes": 50}}]
    found = {f"{cell['row']}/0/half": cell for cell in cells}
    record.write_result("control", seed=0, settings=settings, results={"cells": found})
    page = reproduction_page()
    assert "| control | `oat, no offset`, seeds 0 | 8 5 5 5 | 8 | 2500 | 8000 | 1 | 1 | 0 |" in page
    assert "| control | `acodec, no offset`, seeds 0 | | 8 |" in page
    cells[0]["levels"] = [4, 4]
    record.write_result("control", seed=0, settings=settings, results={"cells": found})
    assert "seeds 0 | 4 4 | 8 |" in reproduction_page()
    assert light_findings.controlled("oat") is not None


def test_every_row_of_control_on_the_page_is_in_the_json() -> None:
    cells = record.read_results("control")["cells"].values()
    named = re.findall(r"\| control \| `(.+?)`, seeds ([\d, ]+) \|", PAGE.read_text())
    assert named
    for row, seeds in named:
        found = {(cell["row"], cell["seed"]) for cell in cells if cell["rule"] == "half"}
        assert {(row, int(seed)) for seed in seeds.split(",")} <= found


def test_two_trainings_by_one_recipe_are_told_as_long_as_the_json_has_them(results: Path) -> None:
    assert made_rows.same_recipe() == ""
    recipe = {"history": 2, "code_smoothing": 0.0, "offset_layers": 0, "batch_size": 64}
    cell = {**control_cell("oat, as first", 0, {1: 60, 8: 85}), **recipe}
    cells = {"cells": {"oat, as first/0/half": cell}}
    record.write_result("control", seed=0, settings={}, results=cells)
    protocol = {"sampling": {"temperature": 0.0}, "seed": 0}
    row = {**control_cell("oat", 0, {1: 69, 8: 115}), **recipe, "protocol": protocol}
    rows = {"state": {"oat": row}}
    record.write_result("policy_table", seed=0, settings={}, results=rows)
    said = " ".join(made_rows.same_recipe().split())
    assert "solves 42.5 % with all tokens" in said
    assert "where that one solves 57.5 %: -15 points (-24 to -5)" in said
    assert "(seed 1 of `control`, 0 of `policy_table`)" in said
    row["steps"] = 100
    record.write_result("policy_table", seed=0, settings={}, results=rows)
    assert made_rows.same_recipe() == ""


def test_numbers_of_episodes_are_those_that_ran() -> None:
    even = [tasks(lift=(1, 10), can=(2, 10))] * 2
    assert made_rows.episodes(even) == "10"
    uneven = [tasks(can=(0, 10), lift=(7, 20)), tasks(can=(0, 10), lift=(7, 18))]
    assert made_rows.episodes(uneven) == "can 10, lift 20 / 18"


def test_rows_whose_seeds_met_the_same_goals_are_named(results: Path) -> None:
    """Their episodes are counted as independent ones, which makes intervals too narrow."""
    assert made_rows.repeated_goals() == ""
    cells = [control_cell("oat, no offset", seed, {8: 100}) for seed in range(3)]
    found = {f"{cell['row']}/{cell['seed']}/half": cell for cell in cells}
    record.write_result("control", seed=0, settings={}, results={"cells": found})
    row = {"recipe": "co-trained, then expert", "kind": "oat", "family": "qwen3-vl"}
    row |= {"success": {"flow, deterministic": tasks(lock=(9, 15), unlock=(9, 15))}}
    for each in row["success"].values():
        each["all"] = each["success"]
    rows = {"rows": {"a/0": row}}
    record.write_result("vlm_expert", seed=0, settings={}, results=rows)
    one = "those with `oat, no offset` of `control` (3 seeds, 200 goals)."
    assert one in " ".join(made_rows.repeated_goals().split())
    rows["rows"]["a/1"] = row
    record.write_result("vlm_expert", seed=0, settings={}, results=rows)
    other = "and `oat` on `qwen3-vl` of `vlm_expert` (2 seeds, 30 goals)."
    assert other in " ".join(made_rows.repeated_goals().split())
