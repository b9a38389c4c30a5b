"""What the page on the reproduction says around its claims."""

from __future__ import annotations

from benchmarks import record
from benchmarks.recipes_of_today import TOKENIZER_STEPS
from benchmarks.report import DOCS
from benchmarks.reproduction import deciding_rows
from oatkit.jobs.paper_tables import PAPER_TABLES

PAGE = DOCS / "reproduction.md"


def test_the_page_says_what_cannot_be_compared_and_how_rows_were_made() -> None:
    page = " ".join(PAGE.read_text().split())
    assert "our actions are clipped to [-1, 1]" in page
    assert "The real-robot half of the paper is absent." in page
    tables = [*record.read_results("policy_sweep").values(), record.read_results("policy_pusht")]
    tables += record.read_results("policy_table").values()
    tables.append(record.read_results("policy_robosuite"))
    for label, row in (item for rows in tables for item in rows.items()):
        temperature = row["protocol"]["sampling"]["temperature"]
        recipe = (row["history"], f"{row['code_smoothing']:g}", row["offset_layers"])
        made = (row["tokens"], row["steps"], row["tokenizer_steps"], *recipe, f"{temperature:g}")
        levels = " ".join(map(str, (row["settings"]["tokenizer"] or {}).get("levels", ())))
        cells = f"{f'{levels} ' if levels else ''}| {' | '.join(map(str, made))} |"
        assert f"| `{label}` | {cells}" in page


def test_the_page_says_what_is_not_stored() -> None:
    page = " ".join(PAGE.read_text().split())
    assert "make 50 of each task by default, which no JSON file stores" in page
    assert "stored before they said them are those of the presets of their time" in page


def test_the_page_says_what_a_command_trains_otherwise() -> None:
    page = PAGE.read_text()
    part = page.split("### co-training\n")[1].split("### ")[0]
    assert "| | `vlm_expert` | this command |" in part
    assert "| actions of a chunk | 16 | 32 |" in part
    assert "| tokens of `oat` | 8 | 16 |" in part
    assert "1000 of the expert alone" in part
    light = page.split("### light-policies\n")[1].split("### ")[0]
    assert "this command |" not in light, "the same code makes both"


def test_the_page_says_which_rows_decide() -> None:
    page = PAGE.read_text()
    for table in ("horizons-half", "horizons-fixed", "codebook"):
        rows = deciding_rows(table)
        assert set(rows) < set(PAPER_TABLES[table].rows) or table == "codebook"
        only = " ".join(f'"{row}"' for row in rows)
        assert f"oatkit reproduce {table} --only {only}\n" in page
        (steps,) = {
            row["tokenizer_steps"] for row in record.read_results("policy_sweep")[table].values()
        }
        assert steps != TOKENIZER_STEPS, "today's need no flag"
        command = f"benchmarks.policy_sweep --tables {table} --only {only}"
        assert f"{command} --tokenizer-steps {steps}\n" in page
