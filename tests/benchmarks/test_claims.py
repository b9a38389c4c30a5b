"""The status of every claim is what its JSON says."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

import pytest
import tyro

from benchmarks import claim_findings as claims
from benchmarks import record, vlm_expert, vlm_training
from benchmarks.claims import CLAIMS
from benchmarks.report import DOCS
from benchmarks.reproduction import reproduction_page
from oatkit.jobs.paper_tables import OWN_TABLES, PAPER_TABLES

PAGE = DOCS / "reproduction.md"
TYRO = {
    "benchmarks.vlm_pipeline": vlm_training.Options,
    "benchmarks.vlm_expert": vlm_expert.ExpertOptions,
}
"""Scripts whose options are a dataclass."""
PARSE = ArgumentParser.parse_args
STATUSES = (claims.AGREES, claims.DIFFERS, claims.UNSURE, claims.MISSING, "cannot be run here (")


def statuses(page: str) -> dict[str, tuple[str, str]]:
    """What the table of claims of a page says: the claim to our numbers and the status."""
    part = page.split("## Claims")[1].split("## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| [")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {says: (ours, status) for _, says, _, ours, _, status in cells}


def test_every_status_of_the_page_is_what_its_json_says() -> None:
    shown = statuses(PAGE.read_text())
    assert shown == {claim.says: (found.ours, found.status) for claim, found in found_now()}
    for claim, found in found_now():
        assert claim.table in PAPER_TABLES
        assert found.status.startswith(STATUSES)
        assert bool(found.ours) == bool(found.source)
        for name in found.source.split(", ") if found.source else ():
            assert (record.RESULTS / f"{name}.json").exists()
    for name in (*PAPER_TABLES, *OWN_TABLES):
        assert f"### {name}\n" in PAGE.read_text()


def test_every_table_that_is_run_has_a_claim() -> None:
    claimed = {claim.table for claim in CLAIMS}
    assert {name for name, table in PAPER_TABLES.items() if table.work != "nothing"} <= claimed
    assert len({claim.says for claim in CLAIMS}) == len(CLAIMS)


def found_now() -> list[tuple[claims.Claim, claims.Found]]:
    return [(claim, claim.found()) for claim in CLAIMS]


def test_a_page_of_other_results_has_other_statuses(results: Path) -> None:
    """The test above can fail: one number of one JSON file changes what the page says."""
    stored = json.loads((PAGE.parents[1] / "benchmarks/results/policy_table.json").read_text())
    pair = stored["results"]["state"]["oat"]["against"]["1"]
    says = "`oat`: 8 tokens succeed more often than 1"
    (results / "policy_table.json").write_text(json.dumps(stored))
    assert statuses(reproduction_page())[says] == statuses(PAGE.read_text())[says]
    pair["low"], pair["high"] = -pair["high"], -pair["low"]
    (results / "policy_table.json").write_text(json.dumps(stored))
    assert statuses(reproduction_page())[says][1] == claims.DIFFERS
    assert statuses(PAGE.read_text())[says][1] == claims.AGREES


def test_nothing_is_claimed_without_results(results: Path) -> None:
    for claim, found in found_now():
        assert found.ours == ""
        assert found.status.startswith((claims.MISSING, "cannot be run here ("))
        assert (claim.needs is None) == found.status.startswith("cannot be run here (")
        assert_parses(found)


def test_what_is_not_measured_says_how_long_it_takes_by_which_command() -> None:
    missing = [found for _, found in found_now() if found.status.startswith(claims.MISSING)]
    for found in missing:
        assert re.search(r": needs (minutes,|about [\d.]+ hours on two cores) ", found.status), (
            found.status
        )
        assert_parses(found)


class ParsedError(Exception):
    """A command was parsed, and is not to run."""


def assert_parses(found: claims.Found) -> None:
    """Whether the command of a claim that is not measured is one that its script takes."""
    if not found.status.startswith(claims.MISSING):
        return
    *_, command, _ = found.status.split("`")
    python, flag, module, *words = shlex.split(command)
    assert (python, flag) == ("python", "-m")
    if module in TYRO:
        tyro.cli(TYRO[module], args=words)
        return
    with (
        patch.object(sys, "argv", [module, *words]),
        patch.object(ArgumentParser, "parse_args", parse_and_stop),
        pytest.raises(ParsedError),
    ):
        importlib.import_module(module).main()


def parse_and_stop(parser: ArgumentParser, argv: list[str] | None = None) -> NoReturn:
    PARSE(parser, argv)
    raise ParsedError
