"""One training on one, two and four processes; the ordinary tests run a part of the benchmark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from benchmarks import record
from benchmarks.processes import POLICIES, Case, cases, processes_table
from benchmarks.report import DOCS
from tests.train.two_ranks import ROOT

FLOAT32, BFLOAT16 = 1e-4, 0.05
"""Largest relative difference of a loss: sums in another order, and roundings of bfloat16."""


def ask(tmp_path: Path, script: str) -> None:
    """Run lines in a process that has computed nothing, which may fork."""
    lines = f"""
from benchmarks.processes import *
folder = Path({str(tmp_path)!r})
prepare(folder)
{script}
"""
    ran = subprocess.run(
        [sys.executable, "-c", lines], cwd=ROOT, capture_output=True, text=True, timeout=3000
    )
    assert ran.returncode == 0, ran.stderr


def test_a_light_policy_is_sharded_and_read_by_one(tmp_path: Path) -> None:
    """Two processes shard it, in float32 and bfloat16, and one goes on from their checkpoint."""
    ask(
        tmp_path,
        f"""
for precision, allowed in (("float32", {FLOAT32}), ("bfloat16", {BFLOAT16})):
    found = compare(Case("light", "fsdp", 2, precision=precision), folder)
    assert found["loss"] < allowed and found["weights"] < allowed, found
two = Case("light", "fsdp", 2)
shutil.rmtree(folder / two.name / "checkpoints/step-00000004")
run(two.alone, folder, folder / two.name)
found = differences(folder / two.name, folder / two.alone.name)
assert found["loss"] < {FLOAT32} and found["weights"] < {FLOAT32}, found
""",
    )


def test_the_cases_are_all_there() -> None:
    found = list(cases())
    assert len(found) == len(set(found)) == 8 + 16 + 16
    assert {case.policy for case in found} == {*POLICIES}
    assert {case.processes for case in found} == {2, 4}
    assert all(case.alone.processes == 1 for case in found)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_many_processes_equal_one(policy: str, tmp_path: Path) -> None:
    """DDP and FSDP, 2 and 4 processes, all weights and adapters, float32 and bfloat16; then four
    processes hand on to two and to one."""
    ask(
        tmp_path,
        f"""
for case in cases(({policy!r},)):
    found = compare(case, folder)
    allowed = {FLOAT32} if case.precision == "float32" else {BFLOAT16}
    assert found["loss"] < allowed, found
handed = hand_on({policy!r}, folder)
for where in ("ddp 2", "fsdp 2", "one"):
    assert handed[where]["loss"] < {FLOAT32} and handed[where]["weights"] < {FLOAT32}, handed
""",
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_killed_twenty_times_ends_as_one_that_was_not(policy: str, tmp_path: Path) -> None:
    ask(
        tmp_path,
        f"""
found = kill_often({policy!r}, folder, KILLS)
assert found["is_same"] and len(found["at"]) == KILLS, found
""",
    )


def test_the_pages_say_what_was_found() -> None:
    results = record.read_results("processes")
    assert processes_table(results) in (DOCS / "scaling.md").read_text()
    for row in results["cases"]:
        assert row["loss"] < (FLOAT32 if row["precision"] == "float32" else BFLOAT16), row
    for row in results["handed_on"]:
        assert all(row[where]["loss"] < FLOAT32 for where in ("ddp 2", "fsdp 2", "one")), row
    assert all(row["is_same"] for row in results["killed"])


def test_a_case_names_itself() -> None:
    assert Case("vlm-ar", "fsdp", 4, 2, "bfloat16").name == "vlm-ar-lora-2-bfloat16-fsdp-4"
    assert Case("light", "fsdp", 2).alone == Case("light")
