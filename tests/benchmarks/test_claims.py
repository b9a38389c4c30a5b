"""The status of every claim is what its JSON says."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import claim_findings as claims
from benchmarks import record
from benchmarks.claims import CLAIMS
from benchmarks.report import DOCS
from benchmarks.reproduction import reproduction_page
from oatkit.jobs.paper_tables import OWN_TABLES, PAPER_TABLES

PAGE = DOCS / "reproduction.md"
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
    return [(claim, claim.find()) for claim in CLAIMS]


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
    for _, found in found_now():
        assert found.ours == ""
        assert found.status.startswith((claims.MISSING, "cannot be run here ("))
